# Sourced by e2e.sh and beside.sh: what they need from the npm registry, and the programs under test.
# Installed once into ${OPENCLAW_LAB:-~/.cache/openclaw-lab}, about 1.3 GB; later runs need no registry.
lab=${OPENCLAW_LAB:-$HOME/.cache/openclaw-lab}
GATEWAY=2026.9.6
LANCEDB="0.23.0 0.27.2 0.30.0" # As gateways have them; the latest comes on top.

say() { printf '\n== %s\n' "$*"; }

# Ends with success and a word that nobody can overlook: a machine without the registry cannot run this.
skip() {
  printf '\n****************************************************************\n' >&2
  printf 'SKIPPED %s: %s\n' "$(basename "$0")" "$1" >&2
  printf '****************************************************************\n' >&2
  exit 0
}

# Unreachable is: no answer at all. An answer that refuses is a failure of the script, and is told as one.
registry_answers() {
  [ -n "$(curl -s -o /dev/null -m 20 -w '%{http_code}' "$(npm config get registry)" | grep -v '^000$')" ]
}

install_into() { # FOLDER PACKAGE...
  local dir="$lab/$1"
  shift
  [ -f "$dir/.done" ] && return
  registry_answers || skip "the npm registry ($(npm config get registry)) cannot be reached, and $* is not in $lab yet"
  say "Installing $* into $dir"
  rm -rf "$dir"
  mkdir -p "$dir"
  (cd "$dir" && npm init -y >/dev/null && npm install "$@" --no-audit --no-fund --loglevel=error && touch .done)
}

install_node() {
  if ! command -v npm >/dev/null 2>&1 || ! command -v curl >/dev/null 2>&1; then
    echo "npm or curl is missing: DREAMER_REQUIRE_NPM=1 scripts/install-tools installs them." >&2
    exit 1
  fi
  install_into node node@24
  export PATH="$lab/node/node_modules/node/bin:$PATH"
}

# Sets LANCEDBS to the installed folders, oldest version first.
install_lancedb() {
  local version latest
  LANCEDBS=()
  for version in $LANCEDB; do
    install_into "lance-$version" "@lancedb/lancedb@$version" apache-arrow@18
    LANCEDBS+=("$lab/lance-$version")
  done
  if latest=$(npm view @lancedb/lancedb version --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-timeout=20000 2>/dev/null) && [ -n "$latest" ]; then
    install_into "lance-$latest" "@lancedb/lancedb@$latest" apache-arrow@18
  else
    latest=$(ls -d "$lab"/lance-*/.done 2>/dev/null | sed 's#.*/lance-##; s#/.done##' | sort -V | tail -n 1)
    say "The registry does not say which @lancedb/lancedb is the latest; the newest installed is ${latest:-none}"
  fi
  case " $LANCEDB " in
    *" $latest "*) ;;
    *) LANCEDBS+=("$lab/lance-$latest") ;;
  esac
}

# Sets DREAMER and FLUSH to what cargo built last in the target directory of scripts/env.sh.
find_programs() {
  local built
  . "$1/scripts/env.sh"
  built=${DREAMER_BIN_DIR:-$CARGO_TARGET_DIR/debug}
  DREAMER=$built/dreamer FLUSH=$built/session-flush
  if [ ! -x "$DREAMER" ] || [ ! -x "$FLUSH" ]; then
    echo "There is no $DREAMER or $FLUSH; run cargo build first." >&2
    exit 1
  fi
  export DREAMER FLUSH
}

# Nothing that this shell is configured for may reach the programs under test.
clear_settings() {
  local name
  for name in $(compgen -e); do
    case $name in
      DREAMER | DREAMER_BIN_DIR) ;;
      DREAMER_* | OPENAI_* | OLLAMA_* | ANTHROPIC_* | MINIMAX_* | OPENCLAW_GATEWAY_* | OPENCLAW_CONFIG_PATH | OPENCLAW_STATE_DIR) unset "$name" ;;
      *_SIMILARITY | IMPORTANCE_DECAY_RATE | SOFT_DELETE_THRESHOLD | MAX_EPISODES_PER_RUN | MAX_NEW_MEMORIES) unset "$name" ;;
    esac
  done
}

# A folder of its own in $run; when the script ends, so does every process that wrote its id into $run/pids.
begin_run() {
  run=$(mktemp -d)
  mkdir "$run/pids"
  trap end_run EXIT
  trap 'exit 130' INT TERM
}

end_run() {
  local code=$? file pids=()
  for file in "$run"/pids/*; do
    if [ -e "$file" ]; then pids+=("${file##*/}"); fi
  done
  if [ ${#pids[@]} -gt 0 ]; then
    kill "${pids[@]}" 2>/dev/null || true
    sleep 2
    kill -9 "${pids[@]}" 2>/dev/null || true
  fi
  if [ "$code" -ne 0 ] && [ -n "${KEEP_RUN:-}" ]; then
    echo "kept: $run" >&2
  else
    rm -rf "$run"
  fi
  exit "$code"
}
