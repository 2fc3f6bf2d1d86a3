# Sourced by scripts/quickstart, scripts/test and .ci/run so that all of them build the same artifacts in the same place.
# One target directory outside the checkout: a clean clone reuses the compiled dependencies (LanceDB is 25 CPU minutes).
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/dreamer-target}"
if command -v mold >/dev/null 2>&1; then
  export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS="${CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS:--C link-arg=-fuse-ld=mold}"
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS:--C link-arg=-fuse-ld=mold}"
fi
