#!/usr/bin/env bash
# Simulates hours of watching in minutes: screens refresh every second instead of every ten, so 48
# minutes correspond to eight hours. Jobs start and end all the time. Prints the memory of each
# watching program over time, the number of pod lists that the API server answered, and whether the
# watch's last state equals a fresh list. Run `cargo sandbox` and build a release first.
#
#   KUBECONFIG=… GPUCTL=target/release/gpuctl benches/soak.sh [MINUTES]
set -euo pipefail
gpuctl=${GPUCTL:-gpuctl}
minutes=${1:-48}
folder=$(mktemp -d)
children=()
trap 'kill "${children[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT

lists() { kubectl get --raw /metrics | awk '/^apiserver_request_total\{/ && /resource="pods"/ && /verb="LIST"/ {sum += $NF} END {print sum + 0}'; }

"$gpuctl" get jobs -w -o json > "$folder/jobs" 2> "$folder/jobs.err" & children+=($!); jobs=$!
"$gpuctl" score --watch=1s --listen 127.0.0.1:0 > /dev/null 2> "$folder/score.err" & children+=($!); score=$!
# `top` reads its keys from a FIFO that stays open but empty.
mkfifo "$folder/keys"; sleep infinity > "$folder/keys" & children+=($!)
script -qefc "stty rows 40 cols 120; exec '$gpuctl' top --interval 1s" /dev/null < "$folder/keys" > "$folder/screen" 2>&1 & children+=($!)
sleep 5
top=$(pgrep -n -f "gpuctl top --interval 1s$")

before=$(lists)
memory() { awk '/^VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/$1/status"; }
printf '| minute | `get jobs -w`, MiB | `top`, MiB | `score --watch`, MiB |\n|---:|---:|---:|---:|\n'
start=$SECONDS made=0 told=-1
while (( SECONDS - start < minutes * 60 )); do
  "$gpuctl" run --quiet --name "soak-$((made % 40))" --image busybox:1 --gpus 1 --allow-pending -- sleep 60 > /dev/null 2>&1 || "$gpuctl" delete job "soak-$((made % 40))" --quiet > /dev/null 2>&1 || true
  made=$((made + 1))
  minute=$(( (SECONDS - start) / 60 ))
  if (( minute != told && minute % 3 == 0 )); then
    told=$minute
    printf '| %s | %s | %s | %s |\n' "$minute" "$(memory "$jobs")" "$(memory "$top")" "$(memory "$score")"
  fi
  sleep 0.4
done
after=$(lists)
sleep 30
printf '| %s | %s | %s | %s |\n\n' "$minutes" "$(memory "$jobs")" "$(memory "$top")" "$(memory "$score")"
printf '%s job changes; the API server answered %s pod lists, including those of the changes\n' "$made" "$((after - before))"
known=$(jq -rs 'reduce .[] as $job ({}; if $job.deleted then del(.[$job.namespace + "/" + $job.jobId]) else .[$job.namespace + "/" + $job.jobId] = $job.status end) | to_entries[] | "\(.key) \(.value)"' "$folder/jobs" | sort)
fresh=$("$gpuctl" get jobs -o json | jq -r '.items[] | "\(.namespace)/\(.jobId) \(.status)"' | sort)
if [ "$known" = "$fresh" ]; then echo "the watch equals a fresh list: $(wc -l <<< "$fresh") jobs"; else echo 'the watch differs from a fresh list:'; diff <(echo "$known") <(echo "$fresh"); exit 1; fi
