"""Operations on the configurations of brokers. The leader of the main hall carries them out."""

from __future__ import annotations

from longhall.broker.configuration_changes import ConfigurationChange
from longhall.cluster.rpc.operation import Operation


class ConfigureBroker(Operation[None]):
    """Change configurations of one broker, or of all (the empty name). With `replace`, those not named end."""

    broker: str
    changes: list[ConfigurationChange]
    replace: bool = False
    validate_only: bool = False


class ListBrokerConfigurations(Operation[dict[str, dict[str, str]]]):
    """The configurations that brokers got at run time: by broker, the empty name for all, and by name."""
