# What the test of the Debian package does where systemd is process 1: the unit with all that it
# takes away, through every change of state.
set -eux
export DEBIAN_FRONTEND=noninteractive

state() {
    systemctl show --property "$1" --value flyball
}

# Waits until a property of the service matches.
await() {
    for _ in $(seq 300); do
        state "$1" | grep -q "$2" && return
        sleep 0.1
    done
    systemctl status --no-pager flyball || true
    false
}

serves() {
    await ActiveState '^active$'
    curl --fail --silent http://127.0.0.1:8080/ | grep -q 'Flyball is installed'
}

# By TLS too, with a certificate of this machine's own authority.
serves_by_tls() {
    serves
    root=/var/lib/flyball/internal/root.pem
    curl --fail --silent --cacert $root https://localhost:8443/ | grep -q 'Flyball is installed'
    test "$(stat -c %U:%a /var/lib/flyball/internal/authority.pem)" = root:600
}

# Another program takes over, and systemd knows it as it knew the first.
upgrade() {
    before=$(state MainPID)
    systemctl kill --signal USR2 --kill-whom main flyball
    for _ in $(seq 300); do
        if [ "$(state MainPID)" != "$before" ]; then break; fi
        sleep 0.1
    done
    main=$(state MainPID)
    test "$main" != "$before"
    await StatusText '^serving by '
    grep -q '^PPid:[[:space:]]*1$' "/proc/$main/status"
    serves
}

# A shorter watchdog than that of the unit, for this test.
mkdir -p /etc/systemd/system/flyball.service.d
printf '[Service]\nWatchdogSec=4s\n' >/etc/systemd/system/flyball.service.d/test.conf

dpkg --force-unsafe-io --install /srv/flyball.deb
test "$(state ActiveState)" = active
state StatusText | grep '^serving by .*, generation 1$'
serves
config=/etc/flyball/flyball.toml
cp $config /srv/kept
printf 'sandbox = "required"\nrate.send-min = "0B"\n' | cat - /srv/kept >$config

# What is taken away is taken away, and the master keeps no more than the unit lets it.
systemctl restart flyball
for process in $(cat /sys/fs/cgroup/system.slice/flyball.service/cgroup.procs); do
    grep -q '^NoNewPrivs:[[:space:]]*1$' "/proc/$process/status"
    grep -q '^Seccomp:[[:space:]]*2$' "/proc/$process/status"
    if [ "$process" != "$(state MainPID)" ]; then
        grep -q '^CapBnd:[[:space:]]*0*$' "/proc/$process/status"
    fi
done

# TLS asks for no more than the unit leaves, at a start, a reload and an upgrade.
cp $config /srv/clear
sed -i -e 's|^listen = .*|listen = ["127.0.0.1:8080", "https://127.0.0.1:8443"]|' \
    -e 's|^\[\[site\]\]|tls.redirect-http = false\n&\nhosts = ["localhost", "127.0.0.1"]|' $config
systemctl restart flyball
serves_by_tls
systemctl reload flyball
serves_by_tls
upgrade
serves_by_tls
cp /srv/clear $config
systemctl restart flyball
# So many starts in so few seconds are more than systemd lets a service have.
systemctl reset-failed flyball

# Reloads: one that goes well, and one that changes nothing.
systemctl reload flyball
state StatusText | grep 'generation 2$'
cp $config /srv/good
echo nonsense >>$config
if systemctl reload flyball; then false; fi
cp /srv/good $config
state StatusText | grep 'generation 2$'
serves

# An upgrade, another by the new program, and a reload of that.
upgrade
upgrade
systemctl reload flyball
serves

# Another server of root has its socket elsewhere: the service is reloaded as before.
flyball ctl status | grep -q 127.0.0.1:8080
flyball serve /var/www/flyball --listen 127.0.0.1:8081 >/srv/other.log 2>&1 & other=$!
for _ in $(seq 100); do
    if curl --fail --silent --output /dev/null http://127.0.0.1:8081/; then break; fi
    sleep 0.1
done
systemctl reload flyball
serves

# Whoever has taken over is watched too: one that hangs is killed and started again, and one that
# dies.
systemctl kill --signal STOP --kill-whom main flyball
await NRestarts '^1$'
serves
upgrade
systemctl kill --signal KILL --kill-whom main flyball
await NRestarts '^2$'
serves

# A stop lets a download end, also after an upgrade.
upgrade
head -c 20000000 /dev/zero >/var/www/flyball/large
chmod 644 /var/www/flyball/large
curl --fail --silent --limit-rate 4M --output /srv/large http://127.0.0.1:8080/large & download=$!
for _ in $(seq 100); do
    if [ -s /srv/large ]; then break; fi
    sleep 0.1
done
systemctl stop flyball
wait $download
cmp /srv/large /var/www/flyball/large
test "$(state Result)" = success

# The other one can still be asked.
flyball ctl status | grep -q 127.0.0.1:8081
kill $other
wait $other

# A configuration that is wrong is not tried again.
echo nonsense >>$config
if systemctl start flyball; then false; fi
test "$(state ActiveState):$(state NRestarts)" = failed:0
cp /srv/good $config
systemctl start flyball
serves

dpkg --purge flyball
test "$(state ActiveState)" = inactive
