#!/usr/bin/env bash
# A Docker engine for one run of the tests: with a folder, a socket and networks of its own, and an
# image test/busybox:1 in it. Nothing is pulled, and nothing of the machine's own engine is touched.
#
#   docker-engine.sh FOLDER              for a test program
#   docker-engine.sh FOLDER COMMAND…     for a command, with DOCKER_HOST set
#
# Says "ready" when FOLDER/docker.sock answers. Reads words: "gone" ends the engine and leaves its
# containers running, "back" starts it again; each is repeated when it is done. It ends, with all
# that it runs, when its input does: a test program that is killed leaves nothing behind. With a
# command it ends when that does, with its exit code.
set -u
folder=$1
shift
engine=
number=
docker() { command docker -H "unix://$folder/docker.sock" "$@"; }

# Two engines on one machine must not use the same addresses. The lock goes with this process.
choose_addresses() {
  for number in $(seq 200 249); do
    exec 9>"${TMPDIR:-/tmp}/tombolo-docker-10.$number.lock"
    flock --nonblock 9 && return
  done
  echo "fifty engines run already" >&2
  return 1
}

start() {
  dockerd --data-root "$folder/data" --exec-root "$folder/exec" -H "unix://$folder/docker.sock" \
    --pidfile "$folder/pid" --bridge none --iptables=false --ip6tables=false --live-restore \
    --default-address-pool "base=10.$number.0.0/16,size=24" >>"$folder/log" 2>&1 9>&- &
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
  for program in sh sleep httpd wget cat echo env tail dd kill true false test touch mkdir \
    hostname sed mv; do
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
choose_addresses && start && import || exit 1
if [ $# -gt 0 ]; then
  DOCKER_HOST="unix://$folder/docker.sock" "$@" 9>&-
  exit
fi
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
