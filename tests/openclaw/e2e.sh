#!/usr/bin/env bash
# A day and a night with the real OpenClaw gateway and the real LanceDB clients of JavaScript: 20 turns of conversation,
# session-flush, dreamer, then the gateway and every client are asked for what the night made of the day.
# usage: tests/openclaw/e2e.sh    KEEP_RUN=1 keeps the folder of a run that failed. Programs: what cargo built last.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lab.sh"
clear_settings
find_programs "$here/../.."
install_node
install_into "openclaw-$GATEWAY" "openclaw@$GATEWAY"
install_lancedb
begin_run
READERS=$(IFS=:; echo "${LANCEDBS[*]}")
export RUN=$run READERS PLUGIN_LANCEDB="$lab/lance-0.30.0" OPENCLAW="$lab/openclaw-$GATEWAY/node_modules/openclaw/openclaw.mjs"
mkdir -p "$run"/{state,ws,home}
say "A day and a night with openclaw $GATEWAY, node $(node --version)"
node "$here/e2e.mjs"
