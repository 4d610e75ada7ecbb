# Boots a root with its systemd as process 1 of namespaces of its own. The arguments: the root, and
# the unit that is started, by which systemd ends. systemd has a control group of its own, which goes
# with it, and can change nothing else of this machine.
set -eu
root=$1 unit=$2
groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=$groups/flyball-test-$$
mkdir "$group"
leave() {
    echo $$ >"$groups/cgroup.procs"
    find "$group" -depth -type d -exec rmdir {} +
}
trap leave EXIT
echo $$ >"$group/cgroup.procs"

inside='
set -eu
root=$1 unit=$2
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc -o nosuid,nodev,noexec proc proc
mount --bind proc/sys proc/sys
mount -o bind,remount,ro proc/sys
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
for device in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 dev/tty c 5 0
mknod -m 600 dev/console c 1 3
ln -s /proc/self/fd dev/fd
ln -s pts/ptmx dev/ptmx
mkdir -p run/before
pivot_root . run/before
umount -l /run/before
exec env --ignore-environment container=unshare PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system "--unit=$unit" </dev/null >/dev/null 2>&1
'
unshare --mount --net --pid --uts --ipc --cgroup --fork --kill-child \
    /bin/sh -c "$inside" sh "$root" "$unit"
