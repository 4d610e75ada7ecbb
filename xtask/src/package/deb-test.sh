# What the test of the Debian package does, in a clean root with a network and processes of its own.
set -eux
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive

# Waits until a server has said that it serves, in a file.
started() {
    for _ in $(seq 100); do
        grep -q 'Ctrl-C stops it' "$2" && return
        kill -0 "$1"
        sleep 0.1
    done
    cat "$2" /tmp/err
    false
}

# A systemctl that only writes down what it is told.
mkdir -p /run/systemd/system
printf '#!/bin/sh\necho "$@" >>/tmp/systemctl\n' >/usr/local/bin/systemctl
chmod 755 /usr/local/bin/systemctl

dpkg --force-unsafe-io --install /tmp/flyball.deb
getent passwd flyball
grep -qx 'enable --now flyball.service' /tmp/systemctl
test "$(stat -c %U:%G:%a /var/log/flyball)" = flyball:adm:750
dpkg-query --show --showformat='${Conffiles}' flyball | grep -q '^ /etc/flyball/flyball.toml '
dpkg --verify flyball
for page in flyball flyball-serve flyball-ctl; do
    test -s /usr/share/man/man1/$page.1.gz
done
for file in bash-completion/completions/flyball zsh/vendor-completions/_flyball \
    fish/vendor_completions.d/flyball.fish; do
    test -s /usr/share/$file
done
test -s /usr/lib/systemd/system/flyball.service
test -s /usr/share/doc/flyball/copyright

# Served from as the unit does it.
flyball check --config /etc/flyball/flyball.toml
start=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/flyball.service)
directory=/run/$(sed -n 's/^RuntimeDirectory=//p' /usr/lib/systemd/system/flyball.service)
mkdir -m 0750 "$directory"
RUNTIME_DIRECTORY=$directory $start >/tmp/out 2>/tmp/err &
server=$!
started $server /tmp/out
curl --fail --silent http://127.0.0.1:8080/ | grep -q 'Flyball is installed'
flyball ctl status >/tmp/status
test -s /tmp/status
worker=$(cut -d' ' -f1 /proc/$server/task/$server/children)
grep -q "^Uid:[[:space:]]*$(id -u flyball)[[:space:]]" /proc/$worker/status
# Another server of root, which neither the reload nor the end of the service is about.
flyball serve /var/www/flyball --listen 127.0.0.1:8081 >/tmp/other 2>/tmp/err &
other=$!
started $other /tmp/other
reload=$(sed -n 's/^ExecReload=//p' /usr/lib/systemd/system/flyball.service)
RUNTIME_DIRECTORY=$directory $reload
curl --fail --silent http://127.0.0.1:8080/ | grep -q 'Flyball is installed'

# And by TLS, with a certificate of this machine's own authority.
config=/etc/flyball/flyball.toml
cp $config /tmp/kept
sed -i -e 's|^listen = .*|listen = ["127.0.0.1:8080", "https://127.0.0.1:8443"]|' \
    -e 's|^\[\[site\]\]|tls.redirect-http = false\n&\nhosts = ["localhost", "127.0.0.1"]|' $config
$(sed -n 's/^ExecReload=//p' /usr/lib/systemd/system/flyball.service)
authority=/var/lib/flyball/internal
curl --fail --silent --cacert $authority/root.pem https://localhost:8443/ |
    grep -q 'Flyball is installed'
curl --fail --silent http://127.0.0.1:8080/ | grep -q 'Flyball is installed'
test "$(stat -c %U:%a $authority/authority.pem)" = root:600
cp /tmp/kept $config
kill $server
wait $server
rm -r "$directory"
flyball ctl status | grep -q 127.0.0.1:8081
kill $other
wait $other

# A configuration that was changed is kept when the package is installed again, and the service is
# restarted; the file goes with a purge, not before.
echo '# mine' >>/etc/flyball/flyball.toml
: >/tmp/systemctl
dpkg --force-unsafe-io --install /tmp/flyball.deb
tail -n 1 /etc/flyball/flyball.toml | grep -q '# mine'
grep -qx 'restart flyball.service' /tmp/systemctl
dpkg --remove flyball
grep -qx 'stop flyball.service' /tmp/systemctl
test -e /etc/flyball/flyball.toml
dpkg --purge flyball
grep -qx 'disable flyball.service' /tmp/systemctl
test ! -e /usr/bin/flyball
test ! -e /etc/flyball
test ! -e /var/log/flyball
test ! -e /var/lib/flyball
