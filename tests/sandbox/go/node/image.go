// Images that are built from files of this machine, because a node cannot reach a registry.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Programs of this machine that are copied to the toolbox image, with their libraries.
var tools = strings.Fields("sh bash cat chmod cp cut date dd df env false grep head id ls mkdir mktemp mv readlink rm sed seq sha256sum sleep stat tail tar test touch tr true wc")

// writeImages writes archives for `ctr images import`: `pause.tar`, `toolbox.tar`, and
// `toolbox-user.tar`, which runs as a user other than root, as images of notebooks do.
func writeImages(folder, toolbox string) {
	binary, err := os.ReadFile(toolbox)
	must(err)
	alone := newLayer()
	alone.file("pause", binary, 0o755)
	pack(filepath.Join(folder, "pause.tar"), pause, alone.bytes(), "", []string{"/pause"})

	layer := newLayer()
	for _, name := range []string{"pause", "train", "serve", "ras"} {
		layer.link("usr/local/bin/"+name, "toolbox")
	}
	layer.file("usr/local/bin/toolbox", binary, 0o755)
	for _, tool := range tools {
		layer.program(tool)
	}
	layer.folder("tmp", 0o1777, 0)
	layer.folder("root", 0o700, 0)
	layer.folder("home/user", 0o755, 1000)
	layer.file("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"), 0o644)
	layer.file("etc/group", []byte("root:x:0:\nuser:x:1000:\n"), 0o644)
	content := layer.bytes()
	pack(filepath.Join(folder, "toolbox.tar"), "docker.io/library/toolbox:1", content, "", []string{"sh"})
	pack(filepath.Join(folder, "toolbox-user.tar"), "docker.io/library/toolbox-user:1", content, "1000", []string{"sh"})
}

// Folders that programs do not need: downloaded packages, documentation, and file systems of the
// kernel.
var leftOut = []string{"dev", "proc", "run", "sys", "usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man", "var/cache", "var/lib/apt/lists"}

// writeImage packs the file system below `root`.
func writeImage(root, name, path string) {
	layer := newLayer()
	must(filepath.WalkDir(root, func(place string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, place)
		if err != nil || inside == "." {
			return err
		}
		if slices.Contains(leftOut, inside) {
			layer.folder(inside, 0o755, 0)
			return filepath.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var target string
		var content []byte
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err = os.Readlink(place)
		case info.Mode().IsRegular():
			content, err = os.ReadFile(place)
		}
		if err != nil {
			return err
		}
		header, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		header.Name = inside
		layer.entry(header, content)
		return nil
	}))
	layer.folder("tmp", 0o1777, 0)
	pack(path, name, layer.bytes(), "", []string{"sh"})
}

type layer struct {
	buffer *bytes.Buffer
	writer *tar.Writer
	have   map[string]bool
}

func newLayer() *layer {
	buffer := &bytes.Buffer{}
	return &layer{buffer, tar.NewWriter(buffer), map[string]bool{}}
}

func (l *layer) entry(header *tar.Header, content []byte) {
	if l.have[header.Name] {
		return
	}
	l.have[header.Name] = true
	must(l.writer.WriteHeader(header))
	_, err := l.writer.Write(content)
	must(err)
}

func (l *layer) folder(name string, mode int64, owner int) {
	l.entry(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner}, nil)
}

func (l *layer) file(name string, content []byte, mode int64) {
	l.entry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}, content)
}

func (l *layer) link(name, target string) {
	l.entry(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

// program adds a program of this machine as `/bin/NAME`, with its shared libraries. It skips a
// program that the machine lacks.
func (l *layer) program(name string) {
	found, err := exec.LookPath(name)
	if err != nil {
		return
	}
	content, err := os.ReadFile(found)
	must(err)
	l.file("bin/"+name, content, 0o755)
	// ldd fails for a static program, which has no libraries.
	libraries, _ := exec.Command("ldd", found).Output()
	for _, word := range strings.Fields(string(libraries)) {
		if !filepath.IsAbs(word) {
			continue
		}
		if content, err := os.ReadFile(word); err == nil {
			l.file(strings.TrimPrefix(word, "/"), content, 0o755)
		}
	}
}

func (l *layer) bytes() []byte {
	must(l.writer.Close())
	return l.buffer.Bytes()
}

func pack(path, name string, content []byte, user string, command []string) {
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": object{"User": user, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "Cmd": command, "WorkingDir": "/"},
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(content))}},
	})
	must(err)
	configName := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]object{{"Config": configName, "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	must(err)
	archive := newLayer()
	archive.file(configName, config, 0o644)
	archive.file("manifest.json", manifest, 0o644)
	archive.file("layer.tar", content, 0o644)
	must(os.WriteFile(path, archive.bytes(), 0o644))
}
