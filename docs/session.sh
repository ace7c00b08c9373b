#!/bin/sh
# Renders docs/session.svg: a terminal with real output of gpuctl on the cluster of `cargo sandbox`.
# Usage:
#   cargo sandbox
#   KUBECONFIG=… GPUCTL=target/release/gpuctl docs/session.sh > docs/session.svg
set -eu
gpuctl=${GPUCTL:-gpuctl}
{
  for words in 'get jobs' 'describe job qwen2-7b-sft' 'get pools' 'report --start 1h'; do
    printf '$ gpuctl %s\n' "$words"
    # shellcheck disable=SC2086
    NO_COLOR=1 "$gpuctl" $words 2>/dev/null | sed '/^SUBMITTED/,$d; /^EVENTS/,$d'
    printf '\n'
  done
} | awk '
  function escaped(text) { gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text); return text }
  { lines[NR] = $0 }
  END {
    while (NR > 0 && lines[NR] == "") NR--
    height = NR * 18 + 32
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"" height "\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">"
    print "<rect width=\"860\" height=\"" height "\" rx=\"8\" fill=\"#0d1117\"/>"
    for (i = 1; i <= NR; i++) {
      color = "#c9d1d9"
      if (lines[i] ~ /^\$ /) color = "#7ee787"
      else if (lines[i] ~ /^[A-Z]+ +[A-Z]/) color = "#8b949e"
      print "<text x=\"16\" y=\"" 16 + i * 18 "\" fill=\"" color "\" xml:space=\"preserve\">" escaped(lines[i]) "</text>"
    }
    print "</svg>"
  }'
