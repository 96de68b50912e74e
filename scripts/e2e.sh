#!/usr/bin/env bash
# Kubernetes' own tests of its API (api-machinery) against an embedded server: `e2e.sh [TOMBOLO]`, the path of the
# binary. Prints each test that fails, and the counts. What cannot apply is skipped here, with the reason; docs/api.md
# has the numbers. Needs `scripts/kube-apiserver.sh build-e2e` once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tombolo=${1:-target/quick/tombolo}
suite=$(scripts/kube-apiserver.sh where-e2e) || { echo "not built yet: scripts/kube-apiserver.sh build-e2e" >&2; exit 1; }
work=$(mktemp -d)
trap '[ -z "${server:-}" ] || kill "$server" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT

# A line each: what is skipped, by a part of its name, and why.
skipped=(
  "chunking|chunks of"                       # lists of PodTemplates, which are not served
  "AdmissionWebhook|webhook"                 # admission webhooks are not served
  "Aggregator|sample API server"             # nor is aggregation
  "ResourceQuota|LimitRange"                 # nor are quotas, which are about Pods
  "Garbage collector|garbage"                # about Pods, ReplicaSets, Deployments and Jobs
  "AdmissionPolicy|StorageVersion"           # admission policies and storage migrations
  "priority and fairness|flowcontrol"        # the door is ours (ADR 8)
  "etcd failure|Etcd failure"                # there is no etcd
  "server identity|APIServerIdentity|kube-apiserver identity|Coordinated"
  "Generated clientset"                      # Pods and CronJobs
  "Certificates|serving certificates"        # of the nodes of a cluster
  "ConversionWebhook|CustomResourceFieldSelectors" # conversion webhooks are refused
  "aggregated discovery interface|locate the groupVersion|raw aggregated discovery|present and missing resources" # look for groups that are not served
  "API Streaming"                            # behind a feature gate that is closed in 1.33
  "sample-apiserver|V3 for Aggregated"       # run another API server, in a Pod
  "OrderedNamespaceDeletion"                 # the order of Pods
  "same resource name as built-in"           # the built-in one is Service
  "services are removed|pods are removed"   # about Services and Pods
  "typed object|ServerSideApply"             # with Deployments and Pods
  "metadata details across all namespaces for nodes|return pod details" # nodes of core/v1, and Pods
  "health handlers"                          # names every part of a kube-apiserver
)
pattern=$(IFS='|'; echo "${skipped[*]}")

HOME=$work "$tombolo" up --no-agent --data "$work/data" --listen 127.0.0.1:0 >"$work/server.log" 2>&1 &
server=$!
kubeconfig=$work/data/kubeconfig
deadline=$((SECONDS + 60))
until [ -s "$kubeconfig" ] && KUBECONFIG=$kubeconfig kubectl get --raw /readyz >/dev/null 2>&1; do
  [ "$SECONDS" -lt "$deadline" ] || { cat "$work/server.log" >&2; exit 1; }
  sleep 0.2
done

"$suite" --kubeconfig "$kubeconfig" --provider=skeleton --e2e-verify-service-account=false \
  --ginkgo.focus 'sig-api-machinery' --ginkgo.skip "$pattern" --ginkgo.no-color --ginkgo.timeout 40m "${@:2}" >"$work/e2e.log" 2>&1 || true
grep -E '^ *\[FAIL\]' "$work/e2e.log" | sort -u || true
grep -E '^(Ran|FAIL!|SUCCESS!)' "$work/e2e.log"
[ -z "${E2E_LOG:-}" ] || cp "$work/e2e.log" "$E2E_LOG"
