#!/usr/bin/env bash
# LanceDB clients of JavaScript and Dreamer's nights write to one table at the same time, each client on a handle that was
# opened before the first night and stays open.
# usage: tests/openclaw/beside.sh    BESIDE_SECONDS=60 is the long form, 15 the default. KEEP_RUN=1 keeps a failed run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lab.sh"
clear_settings
find_programs "$here/../.."
install_node
install_lancedb
begin_run
READERS=$(IFS=:; echo "${LANCEDBS[*]}")
export RUN=$run READERS PLUGIN_LANCEDB="$lab/lance-0.30.0" BESIDE_SECONDS=${BESIDE_SECONDS:-15}
mkdir -p "$run/home"
say "JavaScript and Dreamer write for $BESIDE_SECONDS s"
node "$here/beside.mjs"
