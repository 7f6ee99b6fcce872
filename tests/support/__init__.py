"""What tests share: both backends in virtual time, and contexts that misbehave on cue."""
