// The wrapper of runc that containerd calls. runc is built without libseccomp, so it rejects
// containers with a seccomp profile, which the restricted Pod Security level requires. The tests do
// not depend on seccomp filters, so the wrapper removes them.
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
)

func callRunc(runc string, arguments []string) {
	for at, argument := range arguments {
		if argument == "--bundle" && at+1 < len(arguments) {
			dropSeccomp(filepath.Join(arguments[at+1], "config.json"))
		}
	}
	must(syscall.Exec(runc, append([]string{runc}, arguments...), os.Environ()))
}

func dropSeccomp(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var spec map[string]json.RawMessage
	must(json.Unmarshal(text, &spec))
	var linux map[string]json.RawMessage
	if json.Unmarshal(spec["linux"], &linux) != nil || linux["seccomp"] == nil {
		return
	}
	delete(linux, "seccomp")
	spec["linux"], err = json.Marshal(linux)
	must(err)
	text, err = json.Marshal(spec)
	must(err)
	must(os.WriteFile(path, text, 0o600))
}
