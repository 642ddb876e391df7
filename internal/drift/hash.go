package drift

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/duration"
)

// PoolHashVersion is the version of the hash of a pool. A change of the encoding or of the hashed fields needs a new
// one: claims of another version are restamped, claims of the same version with another hash are replaced.
const PoolHashVersion = "dovetail-1"

// Hash is a digest of the static fields of an object: as a whole, which decides whether a node has
// drifted, and field by field, which only shows what changed.
type Hash struct {
	Sum    string
	Fields string // "role:1f2e3d4c,tags:0a1b2c3d", by name, without those that are not set
}

// OnPool is the hash of a pool as annotations of the pool and of its claims.
func (h Hash) OnPool() map[string]string {
	return map[string]string{
		karpv1.AnnotationNodePoolHash: h.Sum, karpv1.AnnotationNodePoolHashVersion: PoolHashVersion,
		karpv1.AnnotationNodePoolFields: h.Fields,
	}
}

// Stamped reports whether annotations have all of the stamps already.
func Stamped(annotations, stamps map[string]string) bool {
	// any order: all have to be there
	for key, value := range stamps {
		if annotations[key] != value {
			return false
		}
	}
	return true
}

// PoolHash covers the fields of a pool that a running node cannot take over: its template without
// requirements, which are compared with the node's labels instead (API 8). It reads the pool in its
// effective form, so that an old spelling and its strict v1 equivalent hash alike.
func PoolHash(pool *karpv1.NodePool) (Hash, error) {
	effective, _ := pool.Effective(false)
	template := effective.Spec.Template
	kubelet, err := OpenObject(template.Spec.Kubelet)
	if err != nil {
		return Hash{}, err
	}
	return Sum(map[string]any{
		"labels":                 template.ObjectMeta.Labels,
		"annotations":            template.ObjectMeta.Annotations,
		"taints":                 template.Spec.Taints,
		"startupTaints":          template.Spec.StartupTaints,
		"nodeClassRef":           template.Spec.NodeClassRef,
		"expireAfter":            canonicalDuration(template.Spec.ExpireAfter),
		"terminationGracePeriod": canonicalDuration(template.Spec.TerminationGracePeriod),
		"kubelet":                kubelet,
	})
}

// OpenObject encodes an object without a schema as JSON with sorted members. Here zero is not
// absent: cpuCFSQuota false is not the kubelet's default. Nothing and {} are the same.
func OpenObject(raw *runtime.RawExtension) (string, error) {
	if raw == nil || len(raw.Raw) == 0 {
		return "", nil
	}
	tree, err := decode(raw.Raw)
	if err != nil {
		return "", err
	}
	if m, isMap := tree.(map[string]any); tree == nil || isMap && len(m) == 0 {
		return "", nil
	}
	text, err := json.Marshal(tree)
	return string(text), err
}

// canonicalDuration makes 60m and 1h equal. Text that is no duration stands for itself.
func canonicalDuration(d karpv1.Duration) string {
	if length, never, err := duration.ParseOrNever(string(d)); err == nil && !never {
		return length.String()
	}
	return string(d)
}

// Sum is 64 bits of SHA-256 over the canonical encoding, as decimal text, and 32 bits of each field.
func Sum(input map[string]any) (Hash, error) {
	text, err := json.Marshal(input)
	if err != nil {
		return Hash{}, err
	}
	tree, err := decode(text)
	if err != nil {
		return Hash{}, err
	}
	sum := sha256.Sum256([]byte(encode(tree)))
	out := Hash{Sum: strconv.FormatUint(binary.BigEndian.Uint64(sum[:]), 10)}
	members, _ := tree.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if field := encode(members[name]); field != "" {
			sum := sha256.Sum256([]byte(field))
			out.Fields += "," + name + ":" + hex.EncodeToString(sum[:4])
		}
	}
	out.Fields = strings.TrimPrefix(out.Fields, ",")
	return out, nil
}

// Changed names the fields whose digests differ, by name; nothing if one side has none to compare.
func Changed(have, want string) []string {
	if have == "" || want == "" {
		return nil
	}
	digests := func(text string) map[string]string {
		out := map[string]string{}
		for part := range strings.SplitSeq(text, ",") {
			name, digest, _ := strings.Cut(part, ":")
			out[name] = digest
		}
		return out
	}
	before, after := digests(have), digests(want)
	var names []string
	for _, list := range []map[string]string{before, after} {
		// any order: the names are sorted
		for name := range list {
			if before[name] != after[name] {
				names = append(names, name)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// decode reads JSON with numbers as written: through float64, large ones would lose digits.
func decode(text []byte) (tree any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&tree)
	return tree, err
}

// encode writes a JSON tree so that equal meaning gives equal text: members sorted by name, list
// elements sorted by their own encoding, and everything zero or empty left out. Zero encodes as "".
func encode(v any) string {
	switch v := v.(type) {
	case map[string]any:
		parts := make([]string, 0, len(v))
		// any order: wrap sorts the parts
		for name, inner := range v {
			if text := encode(inner); text != "" {
				parts = append(parts, strconv.Quote(name)+":"+text)
			}
		}
		return wrap("{", parts, "}")
	case []any:
		parts := make([]string, 0, len(v))
		for _, inner := range v {
			if text := encode(inner); text != "" {
				parts = append(parts, text)
			}
		}
		return wrap("[", parts, "]")
	case string:
		if v == "" {
			return ""
		}
		return strconv.Quote(v)
	case json.Number:
		if f, err := v.Float64(); err == nil && f == 0 {
			return ""
		}
		return v.String()
	case bool:
		if v {
			return "true"
		}
	}
	return ""
}

func wrap(opening string, parts []string, closing string) string {
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return opening + strings.Join(parts, ",") + closing
}
