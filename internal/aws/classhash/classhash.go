package classhash

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"slices"
	"strconv"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Version is that of the hash. A change of the encoding or of the hashed fields needs a new one: claims of another
// version are restamped, claims of the same version with another hash are replaced.
const Version = "dovetail-2" // since 2: the CA bundle as certificates, not as text

// Annotations is the hash of a class as annotations of the class and of its claims.
func Annotations(h drift.Hash) map[string]string {
	return map[string]string{
		awsv1.AnnotationNodeClassHash: h.Sum, awsv1.AnnotationNodeClassHashVersion: Version,
		awsv1.AnnotationNodeClassFields: h.Fields,
	}
}

// ErrVersionUnknown says that the Kubernetes version is not known yet, on which the family of a
// class may depend. Nothing is to be stamped until it is: a wrong hash would replace a fleet.
var ErrVersionUnknown = errors.New("the Kubernetes version is not known yet")

// Of covers the static fields of a class, the family in force and the CA bundle the nodes
// trust, as certificates (EC2NodeClass 16). Selectors are compared with what they resolve to instead; ipPrefixCount
// never drifts. Whether a role is a profile, and whether leniencies are allowed, does not enter: a
// lookup that fails once, or a setting, must not replace a fleet.
func Of(class *awsv1.EC2NodeClass, facts awsv1.Facts, caBundle string) (drift.Hash, error) {
	if facts.KubernetesMinor == 0 {
		return drift.Hash{}, ErrVersionUnknown
	}
	effective, _ := class.Effective(awsv1.Facts{ClusterName: facts.ClusterName, KubernetesMinor: facts.KubernetesMinor})
	s := effective.Spec
	kubelet, err := drift.OpenObject(s.Kubelet)
	if err != nil {
		return drift.Hash{}, err
	}
	return drift.Sum(map[string]any{
		"amiFamily":                effective.Family(),
		"caBundle":                 certificates(caBundle),
		"placementGroupSelector":   s.PlacementGroupSelector,
		"userData":                 s.UserData,
		"role":                     s.Role,
		"instanceProfile":          s.InstanceProfile,
		"tags":                     s.Tags,
		"kubelet":                  kubelet,
		"blockDeviceMappings":      devices(s.BlockDeviceMappings),
		"instanceStorePolicy":      s.InstanceStorePolicy,
		"networkInterfaces":        s.NetworkInterfaces,
		"detailedMonitoring":       s.DetailedMonitoring,
		"associatePublicIPAddress": explicitBool(s.AssociatePublicIPAddress),
		"metadataOptions":          s.MetadataOptions,
		"connectionTracking":       s.ConnectionTracking,
		"context":                  s.Context,
		"cpuOptions":               s.CPUOptions,
	})
}

// certificates are the digests of the certificates in a CA bundle, base64 of PEM. The same ones in
// another order, or with other line endings around them, are the same bundle: nodes trust the same. What
// cannot be parsed stands for itself.
func certificates(bundle string) []string {
	text, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil {
		return []string{bundle}
	}
	var list []string
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			sum := sha256.Sum256(block.Bytes)
			list = append(list, hex.EncodeToString(sum[:]))
		}
	}
	if len(list) == 0 {
		return []string{bundle}
	}
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

func devices(mappings []awsv1.BlockDeviceMapping) []any {
	list := make([]any, 0, len(mappings))
	for _, m := range mappings {
		device := map[string]any{"deviceName": m.DeviceName, "rootVolume": m.RootVolume, "ebs": m.EBS}
		if m.EBS != nil {
			device["deleteOnTermination"] = explicitBool(m.EBS.DeleteOnTermination)
			device["encrypted"] = explicitBool(m.EBS.Encrypted)
		}
		list = append(list, device)
	}
	return list
}

// explicitBool keeps false apart from absent where the two launch different machines: absent leaves the
// choice to the subnet or the image. For all other fields zero and absent mean the same.
func explicitBool(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

// Drift says whether a claim was made from a class that looked otherwise, by the annotations of both.
// Hashes are only compared if both sides have one of the same version.
func Drift(class *awsv1.EC2NodeClass, claim *karpv1.NodeClaim) (why reason.Reason, drifted bool) {
	have, want := claim.Annotations, class.Annotations
	for _, key := range []string{awsv1.AnnotationNodeClassHash, awsv1.AnnotationNodeClassHashVersion} {
		if have[key] == "" || want[key] == "" {
			return reason.Reason{}, false
		}
	}
	if have[awsv1.AnnotationNodeClassHashVersion] != want[awsv1.AnnotationNodeClassHashVersion] || have[awsv1.AnnotationNodeClassHash] == want[awsv1.AnnotationNodeClassHash] {
		return reason.Reason{}, false
	}
	fields := drift.Paths(drift.Changed(have[awsv1.AnnotationNodeClassFields], want[awsv1.AnnotationNodeClassFields]), "a field of spec, or the CA of the cluster,", func(name string) string {
		if name == "caBundle" {
			return "the CA of the cluster"
		}
		return "spec." + name
	})
	return reason.Reason{Code: reason.NodeClassDrift, Subject: awsv1.Kind + " " + class.Name, Have: fields}, true
}
