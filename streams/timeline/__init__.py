"""The past of a shard, indexed on a disk: the state at any moment, and the events of one subject, without reading the log again."""

from streams.timeline.timeline import Timeline

__all__ = ["Timeline"]
