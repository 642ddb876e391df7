package embedded

import (
	"runtime/debug"
	"sync"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"
)

// Version is that of the Kubernetes in this binary, such as v1.37.1.
func Version() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "k8s.io/kubernetes" && module.Version != "" {
				return module.Version
			}
		}
	}
	return "v" + version.DefaultKubeBinaryVersion + ".0"
}

// namedVersion is a version whose information says which release it is.
type namedVersion struct {
	basecompatibility.MutableEffectiveVersion
	release string
}

// Info is what /version returns.
func (v namedVersion) Info() *apiversion.Info {
	info := v.MutableEffectiveVersion.Info()
	if info != nil {
		info.GitVersion = v.release
	}
	return info
}

// nameVersion makes the components say which release they are. Kubernetes expects that from flags of
// the linker; without them /version holds a placeholder that kubectl and helm cannot read, and every
// test binary is built without. The registry is a variable of the process, so once is enough, and it
// must be before any component makes its options.
var nameVersion = sync.OnceValue(func() error {
	if _, err := utilversion.ParseSemantic(version.Get().GitVersion); err == nil {
		return nil // the linker did
	}
	registry := compatibility.DefaultComponentGlobalsRegistry
	registry.Reset()
	named := namedVersion{MutableEffectiveVersion: compatibility.DefaultBuildEffectiveVersion(), release: Version()}
	return registry.Register(basecompatibility.DefaultKubeComponent, named, utilfeature.DefaultMutableFeatureGate)
})
