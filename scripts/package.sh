#!/usr/bin/env bash
# A Debian package of a built binary: the program, the unit of the server (not enabled), manual pages and
# completions. `make package` calls it; docs/install.md says what to do with the package.
#
#   package.sh BINARY FOLDER     prints the path of the package that it has written into FOLDER
#
# COMPRESSION (xz) may be `none`, which is quick and large.
set -euo pipefail

binary=$(realpath "$1")
folder=$2
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v dpkg-deb >/dev/null || { echo "there is no dpkg-deb here: a Debian package is made on Debian" >&2; exit 1; }

version=$("$binary" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
# The newest version of the C library that the program asks for: an older one cannot run it.
libc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$binary" | cut -d_ -f2 | sort -Vu | tail -1)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"

install -D -m 0755 "$binary" "$root/usr/bin/tombolo"
install -D -m 0644 "$scripts/tombolo.service" "$root/usr/lib/systemd/system/tombolo.service"
install -D -m 0644 "$scripts/../LICENSE" "$root/usr/share/doc/tombolo/copyright"
mkdir -p "$root"/usr/share/{man/man1,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d} "$root/DEBIAN"
"$binary" man --dir "$root/usr/share/man/man1" >/dev/null
gzip -9n "$root"/usr/share/man/man1/*.1
"$binary" completion bash >"$root/usr/share/bash-completion/completions/tombolo"
"$binary" completion zsh >"$root/usr/share/zsh/vendor-completions/_tombolo"
"$binary" completion fish >"$root/usr/share/fish/vendor_completions.d/tombolo.fish"

cat >"$root/DEBIAN/control" <<CONTROL
Package: tombolo
Version: $version
Architecture: $architecture
Maintainer: the Tombolo authors <root@localhost>
Depends: libc6${libc:+ (>= $libc)}
Section: admin
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: orchestrator from edge to cloud: server, agent and shell in one program
 Applications are declared with what their parts need, machines join as sites, and each part runs where it
 fits best. The server speaks the protocol of Kubernetes.
CONTROL

# After an upgrade, what runs is the new version; nothing is started that did not run. What the agent
# supervises goes on meanwhile.
cat >"$root/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart tombolo.service tombolo-agent.service || true
fi
SCRIPT
cat >"$root/DEBIAN/prerm" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -e /etc/systemd/system/tombolo-agent.service ]; then
  echo "tombolo: this machine has an agent, which needs the program; end it first: tombolo agent uninstall" >&2
  exit 1
fi
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl stop tombolo.service || true
fi
SCRIPT
chmod 0755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"

mkdir -p "$folder"
package="$folder/tombolo_${version}_$architecture.deb"
dpkg-deb --root-owner-group "-Z${COMPRESSION:-xz}" --build "$root" "$package" >/dev/null
echo "$package"
