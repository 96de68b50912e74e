#!/usr/bin/env bash
# A Docker engine for one run of the tests: with a folder, a socket and networks of its own, and an
# image test/busybox:1 in it. Nothing is pulled, and nothing of the machine's own engine is touched.
#
#   docker-engine.sh FOLDER
#
# Says "ready" when FOLDER/docker.sock answers. Reads words: "gone" ends the engine and leaves its
# containers running, "back" starts it again; each is repeated when it is done. It ends, with all
# that it runs, when its input does: a test program that is killed leaves nothing behind.
set -u
folder=$1
engine=
# Two engines on one machine must not use the same addresses.
pool="10.$((200 + $$ % 50)).0.0/16"
docker() { command docker -H "unix://$folder/docker.sock" "$@"; }

start() {
  dockerd --data-root "$folder/data" --exec-root "$folder/exec" -H "unix://$folder/docker.sock" \
    --pidfile "$folder/pid" --bridge none --iptables=false --ip6tables=false --live-restore \
    --default-address-pool "base=$pool,size=24" >>"$folder/log" 2>&1 &
  engine=$!
  until docker version >/dev/null 2>&1; do
    kill -0 "$engine" 2>/dev/null || { tail -n 20 "$folder/log" >&2; return 1; }
    sleep 0.1
  done
}

import() {
  local root="$folder/image"
  mkdir -p "$root/bin" "$root/tmp" "$root/etc"
  cp "$(command -v busybox)" "$root/bin/busybox"
  local program
  for program in sh sleep httpd wget cat echo env tail dd kill true false test touch mkdir; do
    ln -sf busybox "$root/bin/$program"
  done
  tar -C "$root" -c . | docker import - test/busybox:1 >/dev/null
}

end() {
  kill -0 "$engine" 2>/dev/null || start
  docker ps -aq | xargs -r -n 20 docker -H "unix://$folder/docker.sock" rm -f >/dev/null 2>&1
  docker network prune -f >/dev/null 2>&1
  kill -TERM "$engine" 2>/dev/null
  wait "$engine" 2>/dev/null
  grep -F " $folder/" /proc/mounts | cut -d ' ' -f 2 | xargs -r -n 1 umount -l 2>/dev/null
  rm -rf "$folder"
}

# Ctrl-C is for the tests: their end ends this, too.
trap '' INT
mkdir -p "$folder"
trap end EXIT
start && import || exit 1
echo ready
while read -r word; do
  case $word in
    gone)
      kill -TERM "$engine"
      wait "$engine" 2>/dev/null
      ;;
    back) start || exit 1 ;;
  esac
  echo "$word"
done
