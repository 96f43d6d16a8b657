#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program on a device over ssh: --against "./board.sh {model} {inputs} {outputs}"
#
#   BOARD         the host, as ssh knows it
#   RUNNER        the device's command; it gets the paths of the program, the inputs and the outputs
#   SSH_OPTIONS   further options of ssh and scp, such as "-F board.config"
#   PAUSES        the seconds after each attempt, 1 5 0 by default
#
# One program runs at a time, and others wait. If the connection is cut, the run is repeated. What the device
# prints is also added to board.log, beside this script.
# shellcheck disable=SC2029,SC2086
set -u
options="-o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 ${SSH_OPTIONS:-}"

attempt() { # 255 is ssh's own exit code: there is no connection
    folder=$(ssh -n $options "$BOARD" mktemp -d) || return 255
    scp -q $options "$1" "$BOARD:$folder/model.tosa" || return 255
    scp -q $options "$2" "$BOARD:$folder/inputs.npz" || return 255
    ssh -n $options "$BOARD" "cd $folder &&
        flock /tmp/board.lock $RUNNER model.tosa inputs.npz outputs.npz" >"$3.log" 2>&1
    code=$?
    tee -a "${0%/*}/board.log" <"$3.log" >&2
    if [ $code -eq 0 ]; then scp -q $options "$BOARD:$folder/outputs.npz" "$3" || code=$?; fi
    ssh -n $options "$BOARD" rm -r "$folder"
    return $code
}

for pause in ${PAUSES:-1 5 0}; do
    attempt "$@"
    code=$?
    [ $code -eq 255 ] || exit $code
    sleep $pause
done
echo "$BOARD cannot be reached" >&2
exit 75
