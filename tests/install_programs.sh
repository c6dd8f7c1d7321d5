#!/bin/sh
# Install the Debian programs that tests run, in one go. What cannot be had is named in .programs/NAME.missing, and its tests are skipped.
#   redis-server  checkpoints on Redis          strace    proof that nothing leaves the machine
#   pgbouncer     a store behind a pool         chromium  the page in a real browser
PATH=$PATH:/usr/sbin
NAMES="redis-server strace pgbouncer chromium"
rm -rf .programs && mkdir .programs
wanted=
for name in $NAMES; do command -v "$name" >/dev/null || wanted="$wanted $name"; done
if [ -n "$wanted" ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's$wanted, which the tests run (once) ..."
    sudo=
    [ "$(id -u)" = 0 ] || sudo="sudo -n"
    install="$sudo apt-get install -y --no-install-recommends $wanted"
    { $install || { $sudo apt-get update && $install; }; } >.programs/log 2>&1
fi
for name in $NAMES; do
    # strace may be installed and still not be allowed to trace.
    case $name in strace) try="strace -f --seccomp-bpf -e trace=openat -o /dev/null true" ;; *) try="$name --version" ;; esac
    if ! said=$($try 2>&1); then
        echo "$said" | tail -n 1 >.programs/"$name".missing
    fi
done
touch .programs/tried
ls .programs/*.missing >/dev/null 2>&1 || touch .programs/installed
