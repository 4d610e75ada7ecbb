#!/bin/sh
# A server before php-fpm with two children, which take the time that /work is asked for.
#
#   php-work.sh flyball|nginx SCRATCH HOST PORT ROOT FLYBALL
#
# Stays in the foreground, and ends both by SIGTERM. Each server has its settings as they are, but
# for the length of the accept queue, which the experiments have.
set -eu
server=$1 scratch=$2 host=$3 port=$4 root=$5 flyball=$6
socket=$scratch/php.sock
chmod 755 "$scratch"

cat > "$scratch/work.php" <<'END'
<?php
function cpu_us() {
    $used = getrusage();
    return ($used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']) * 1000000
        + $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec'];
}
$until = cpu_us() + (int) ($_GET['burn-us'] ?? 0);
while (cpu_us() < $until) {
}
usleep((int) ($_GET['sleep-us'] ?? 0));
echo "worked\n";
END

as_root=
pool_user=
if [ "$(id -u)" = 0 ]; then
    as_root=-R
    pool_user="user = root
group = root
listen.owner = root
listen.mode = 0666"
fi
cat > "$scratch/fpm.conf" <<END
[global]
error_log = $scratch/fpm.log
daemonize = no
[work]
$pool_user
listen = $socket
pm = static
pm.max_children = 2
END
fpm=$(command -v php-fpm || ls /usr/sbin/php-fpm* 2>/dev/null | head -n 1)
"$fpm" -n $as_root -F -y "$scratch/fpm.conf" &
php=$!
trap 'kill "$php" 2>/dev/null || true' EXIT

case $server in
flyball)
    cat > "$scratch/flyball.toml" <<END
listen = "$host:$port"
access-log = "off"
accept.backlog = 4096
workers = 1
[[site]]
root = "$root"
[[site.fastcgi]]
path = "/work"
socket = "unix:$socket"
script = "$scratch/work.php"
require-script = false
END
    "$flyball" serve --config "$scratch/flyball.toml" --admin "unix:$scratch/admin" &
    ;;
nginx)
    [ "$(id -u)" = 0 ] && user="user root;" || user=
    cat > "$scratch/nginx.conf" <<END
$user
daemon off;
worker_processes 1;
pid "$scratch/nginx.pid";
error_log "$scratch/error.log" error;
events { worker_connections 16384; }
http {
    access_log off;
    client_body_temp_path "$scratch/body";
    fastcgi_temp_path "$scratch/fastcgi";
    proxy_temp_path "$scratch/proxy";
    uwsgi_temp_path "$scratch/uwsgi";
    scgi_temp_path "$scratch/scgi";
    server {
        listen $host:$port backlog=4096;
        root "$root";
        location /work {
            fastcgi_pass unix:$socket;
            fastcgi_param SCRIPT_FILENAME "$scratch/work.php";
            fastcgi_param QUERY_STRING \$query_string;
            fastcgi_param REQUEST_METHOD \$request_method;
        }
    }
}
END
    nginx -p "$scratch" -c "$scratch/nginx.conf" -e "$scratch/error.log" &
    ;;
esac
served=$!
trap 'kill "$served" "$php" 2>/dev/null || true; wait' EXIT
trap 'exit 0' TERM INT
wait "$served"
