//! Landlock and seccomp applied to every launch
