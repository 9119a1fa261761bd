#!/bin/bash
# Try the service of Muster on a live systemd with cgroup v2: tools/try_systemd.sh [DEBIAN-RELEASE]
# As root, with debootstrap, e2fsprogs and user-mode-linux. It makes a machine of Debian in a temporary directory, boots it as a
# process, and lets its root install the service, kill it, restart it and end it. Needs 5 GB, and about five minutes.
set -euo pipefail
release=${1:-trixie}
checkout=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
guest=$work/guest
mkdir "$work/out"

debootstrap --variant=minbase --include=systemd-sysv,dbus,libpam-systemd,procps,python3-venv,ca-certificates \
    "$release" "$guest" >"$work/debootstrap.log" || { tail -n 3 "$work/debootstrap.log"; exit 1; }
cp /etc/ssl/certs/ca-certificates.crt "$guest/etc/ssl/certs/" # what a proxy of this network may need
mkdir "$guest/src" "$guest/out"
git -C "$checkout" archive HEAD | tar -x -C "$guest/src"
chroot "$guest" sh -c 'python3 -m venv /opt/muster && /opt/muster/bin/pip install -q "/src[server]"'
ln -s /opt/muster/bin/muster "$guest/usr/local/bin/muster"
chroot "$guest" useradd -m ada
cat >"$guest/trial" <<'END'
mount -t hostfs none /out -o "$1" && exec >/out/log 2>&1 </dev/null
trap 'systemctl poweroff' EXIT
set -eux
unit=muster-root-.muster.service
await() { for _ in $(seq 120); do if "$@"; then return; fi; sleep 1; done; echo "never: $*"; exit 1; }
goes_on() { systemctl -q is-active $unit && [ "$(pgrep -u ada -x sleep)" = "$job" ]; }
muster service install --system
systemctl -q is-active $unit
muster status | grep -x 'limits   memory and CPU by cgroup v2'
# A sample would see more than the limit, and once a second at most.
exceed() {
    code=0
    runuser -l ada -c 'muster run --cpus 100m --memory 64Mi -- python3 -c "x = bytearray(200 << 20); import time; time.sleep(60)"' \
        >/tmp/exceed 2>&1 || code=$?
    cat /tmp/exceed
    [ $code = 137 ]
    grep 'it needed more memory than its limit of 64Mi (it used 64Mi)' /tmp/exceed
}
exceed
runuser -l ada -c 'muster run --detach --cpus 100m --memory 64Mi -- sleep 600'
await pgrep -u ada -x sleep
job=$(pgrep -u ada -x sleep)
limits=$(find /sys/fs/cgroup -path "*/muster-node-0-*/memory.max" -exec grep -lx $((64 << 20)) {} +)
[ "$(cat "${limits%/*}/cgroup.procs")" = "$job" ]
muster restart
goes_on
systemctl daemon-reload
systemctl restart systemd-journald # systemd sets up the cgroups beside ours again
exceed
kill -9 "$(systemctl show -P MainPID $unit)"
sleep 1
await goes_on
muster down --yes
[ "$(systemctl is-active $unit)" = inactive ]
[ -z "$(pgrep -u ada -x sleep)" ]
[ -z "$(find /sys/fs/cgroup -name '*muster*')" ]

systemctl start $unit
runuser -l ada -c 'muster run --detach --cpus 100m --memory 64Mi -- sleep 600'
await pgrep -u ada -x sleep
systemctl kill --signal=KILL $unit # the server, and with it the shims
muster down --yes
[ -z "$(pgrep -u ada -x sleep)" ]
[ -z "$(find /sys/fs/cgroup -name '*muster*')" ]
echo passed
END
cat >"$guest/etc/systemd/system/trial.service" <<END
[Service]
Environment=HOME=/root
ExecStart=/bin/bash /trial $work/out
END
ln -s ../trial.service "$guest/etc/systemd/system/multi-user.target.wants/trial.service"

mkfs.ext4 -q -d "$guest" "$work/disk" 4G
# Not by SIGKILL: the guest's processes would go on as processes of this machine.
timeout 600 linux.uml mem=3G ubd0="$work/disk" root=/dev/ubda rw con=null con0=null,null ssl=null \
    systemd.unified_cgroup_hierarchy=1 uml_dir="$work" >"$work/console" </dev/null || true
cat "$work/out/log"
grep -qx passed "$work/out/log"
