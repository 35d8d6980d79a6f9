"""Which worker holds which blob: how long what is known of an endpoint stands, and what it is used for (section 6)."""

from pydantic import BaseModel, ConfigDict, Field

from events.config.options import PositiveSeconds, Seconds


class LocalityConfig(BaseModel):
    """What is known of endpoints, and what it is used for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefer_from_bytes: int | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="Symptom: actions are placed on workers that must fetch gigabytes of inputs another worker with room already has. "
        "Mechanism: of the workers that could take the action now, the one that holds most bytes of its inputs is taken, where it holds at "
        "least so many and more than the one the allocation strategy chose; otherwise the allocation strategy decides. Which action is "
        "next stays as it is, nothing waits for a worker without room, and held workers are not preferred. Of the 64 largest inputs the "
        "bytes are counted; the 16 largest find who holds them, and one that more than 32 endpoints hold finds nobody. Cost: the decider "
        "folds what workers report into a store of its own (--data-dir of headway decider run), and load may gather on workers that hold "
        "much: set it to bytes that take longer to fetch than an even load is worth. Watch holders and saved_bytes in "
        "OperationDispatched, and holders_unanswered of the decider. Unset: what workers hold decides nothing.",
    )
    never_reconnect_s: Seconds = Field(
        default=600,
        description="An endpoint that was not heard for this long is forgotten, with all it held: counted from the end of a recovery for "
        "one that was connected before, from its disconnection for any other, and never while its flaps still count (PM9, F-1).",
    )
    max_unacknowledged_chunks: int = Field(
        default=256,
        ge=1,
        le=100_000,
        description="Chunks of stable blobs that are kept for an endpoint until it acknowledges them; more, and the oldest are given up.",
    )
    small_blob_mirror: bool = Field(
        default=False,
        description="Workers take stable blobs of at most 16 KiB without being asked for them, and keep them until they have advertised "
        "them (Q-2).",
    )
    flap_threshold: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Changes of an endpoint's boot epoch within flap_window_s that are worth a warning (F-3).",
    )
    flap_window_s: PositiveSeconds = Field(
        default=300, description="Older changes of the boot epoch do not count (F-2)."
    )
    flap_cooldown_s: Seconds = Field(default=60, description="No second warning of an endpoint within this (F-3).")
