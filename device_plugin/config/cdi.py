"""Rules of `container.cdi`: what a CDI spec, which is the same for all containers, cannot say."""

from device_plugin.config.conflicts import Examined
from device_plugin.config.decode import known
from device_plugin.config.problem import Report


def check(one: Examined, report: Report) -> None:
    container = one.resource.container
    if not known(container) or not known(container.cdi) or not container.cdi:
        return
    where = (*one.where, "container", "cdi")
    if known(one.resource.name):
        for part in one.resource.name.split("/"):
            if part[:1].isdigit():
                message = f"CDI has no names that begin with a digit, as `{part}` does"
                report.at(where, f"{message}; rename the resource, or drop `cdi`")
    for selected in one.selected:
        for node in selected.nodes:
            if node.path is not None and "index" in node.path.fields:
                message = "`{index}` is another one in each container, which CDI cannot say"
                report.at(node.where, f"{message}; write `{{id}}`, or drop `cdi`")
