package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker: -X github.com/dovetail-sh/dovetail/internal/version.Version=1.2.3
var (
	Version = ""
	Commit  = ""
)

// Info is one build.
type Info struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// Get returns the build this program is.
func Get() Info {
	info := Info{Version: Version, Commit: Commit, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if ok && info.Version == "" && build.Main.Version != "" {
		info.Version = strings.TrimPrefix(build.Main.Version, "v") // as charts and images are numbered
	}
	if ok && info.Commit == "" {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				info.Commit = s.Value
			}
		}
	}
	if info.Version == "" || info.Version == "(devel)" {
		info.Version = "dev"
	}
	if info.Commit == "" {
		info.Commit = "unknown"
	}
	return info
}

// String renders the build on one line.
func (i Info) String() string {
	return "dovetail " + i.Version + " (commit " + i.Commit + ", " + i.GoVersion + ", " + i.Platform + ")"
}
