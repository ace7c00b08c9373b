module gpuctl.dev/sandbox/toolbox

go 1.26.0
