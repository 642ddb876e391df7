package awsemu

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Releases that a pinned alias of the fixture can name, the recommended one last.
var (
	eksReleases          = []string{"v20260101", "v20260115", "v20260128", "v20260211"}
	bottlerocketReleases = []string{"1.52.0", "1.53.0", "1.54.0"}
)

// amazonOwner owns the images of the fixture.
const amazonOwner = "602401143452"

// aliasImage is an image and the public SSM parameter that points at it.
type aliasImage struct {
	Path         string
	Latest       string // the path whose image this is; empty: it has one of its own
	Name         string
	Architecture string // x86_64 or arm64
	Windows      bool
	Older        int // releases since
	RootDevice   string
	Devices      []ImageDevice // none: a root volume of the usual size
}

// imageID is the image that the parameter names.
func (a aliasImage) imageID() string { return imageIDFor(cmp.Or(a.Latest, a.Path)) }

// imageIDFor derives the id of an image from a name, such as the path of its SSM parameter.
func imageIDFor(name string) string { return stableID("ami-", name) }

// stableID derives an id from a name: the same in every emulator.
func stableID(prefix, name string) string {
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:])[:17]
}

// minorOf is the 34 of 1.34, or 0.
func minorOf(k8sVersion string) int {
	_, minor, _ := strings.Cut(k8sVersion, ".")
	n, err := strconv.Atoi(minor)
	if err != nil {
		return 0
	}
	return n
}

// aliasPaths returns every public parameter that names an image for a Kubernetes version such as 1.34.
func aliasPaths(k8sVersion string) []aliasImage {
	list := al2023Paths(k8sVersion)
	if minorOf(k8sVersion) <= 32 {
		list = append(list, al2Paths(k8sVersion)...)
	}
	for _, flavour := range []string{"", "-nvidia"} {
		for _, arch := range []string{"x86_64", "arm64"} {
			folder := "/aws/service/bottlerocket/aws-k8s-" + k8sVersion + flavour + "/" + arch + "/"
			for n, version := range append([]string{"latest"}, bottlerocketReleases...) {
				newest := bottlerocketReleases[len(bottlerocketReleases)-1]
				latest := ""
				if version == newest {
					latest = folder + "latest/image_id"
				}
				list = append(list, aliasImage{
					Path: folder + version + "/image_id", Latest: latest,
					Name: "bottlerocket-aws-k8s-" + k8sVersion + flavour + "-" + arch + "-v" + strings.Replace(version, "latest", newest, 1),

					Architecture: arch, Older: (len(bottlerocketReleases) - n) % len(bottlerocketReleases), RootDevice: "/dev/xvda",
					Devices: []ImageDevice{{Name: "/dev/xvda", SizeGiB: 2, Type: "gp2"}, {Name: "/dev/xvdb", SizeGiB: usualRootGiB, Type: "gp2"}},
				})
			}
		}
	}
	years := []string{"2019", "2022"}
	if minorOf(k8sVersion) >= 35 {
		years = append(years, "2025")
	}
	for _, year := range years {
		name := "Windows_Server-" + year + "-English-Core-EKS_Optimized-" + k8sVersion
		list = append(list, aliasImage{
			Path: "/aws/service/ami-windows-latest/" + name + "/image_id", Name: name + "-2026.02.11",
			Architecture: "x86_64", Windows: true, RootDevice: "/dev/sda1",
			Devices: []ImageDevice{{Name: "/dev/sda1", SizeGiB: 50, Type: "gp2"}},
		})
	}
	return list
}

func al2023Paths(k8sVersion string) []aliasImage {
	var list []aliasImage
	for _, kind := range []string{"x86_64/standard", "x86_64/nvidia", "x86_64/neuron", "arm64/standard", "arm64/nvidia"} {
		arch, variant, _ := strings.Cut(kind, "/")
		name := "amazon-eks-node-al2023-" + arch + "-" + variant + "-" + k8sVersion
		folder := "/aws/service/eks/optimized-ami/" + k8sVersion + "/amazon-linux-2023/" + arch + "/" + variant + "/"
		list = append(list, eksPaths(folder, name, arch)...)
	}
	return list
}

func al2Paths(k8sVersion string) []aliasImage {
	var list []aliasImage
	for _, kind := range []struct{ folder, name, arch string }{
		{"amazon-linux-2", "amazon-eks-node-", "x86_64"},
		{"amazon-linux-2-arm64", "amazon-eks-arm64-node-", "arm64"},
		{"amazon-linux-2-gpu", "amazon-eks-gpu-node-", "x86_64"},
	} {
		folder := "/aws/service/eks/optimized-ami/" + k8sVersion + "/" + kind.folder + "/"
		list = append(list, eksPaths(folder, kind.name+k8sVersion, kind.arch)...)
	}
	return list
}

// eksPaths is the recommended image of a folder and every release by its name: also the recommended one,
// which is what one pins after looking it up.
func eksPaths(folder, name, arch string) []aliasImage {
	recommended, newest := folder+"recommended/image_id", eksReleases[len(eksReleases)-1]
	list := []aliasImage{{Path: recommended, Name: name + "-" + newest, Architecture: arch, RootDevice: "/dev/xvda"}}
	for n, release := range eksReleases {
		latest := ""
		if release == newest {
			latest = recommended
		}
		list = append(list, aliasImage{
			Path: folder + name + "-" + release + "/image_id", Latest: latest, Name: name + "-" + release, Architecture: arch, Older: len(eksReleases) - 1 - n, RootDevice: "/dev/xvda",
		})
	}
	return list
}

// emulatedVersions are the Kubernetes versions that have images.
func (e *Emulator) emulatedVersions() []string {
	var versions []string
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		versions = append(versions, "1."+itoa(minor))
	}
	if v := e.fixture.KubernetesVersion; v != "" && !slices.Contains(versions, v) {
		versions = append(versions, v)
	}
	return versions
}

// fixtureImages returns the images of every emulated Kubernetes version.
func (e *Emulator) fixtureImages(now time.Time) map[string]*Image {
	images := map[string]*Image{}
	day := now.UTC().Truncate(24 * time.Hour)
	for _, version := range e.emulatedVersions() {
		for _, a := range aliasPaths(version) {
			if a.Latest != "" {
				continue
			}
			created := day.AddDate(0, 0, -30-14*a.Older)
			image := &Image{
				ID: a.imageID(), Name: a.Name, Architecture: a.Architecture, Owner: amazonOwner, OwnerAlias: "amazon",
				State: "available", RootDevice: a.RootDevice, Devices: a.Devices, Created: created, Deprecated: created.AddDate(2, 0, 0),
			}
			if a.Windows {
				image.Platform = "windows"
			}
			images[image.ID] = image
		}
	}
	return images
}

type imageItem struct {
	ID           string            `xml:"imageId"`
	Name         string            `xml:"name"`
	Architecture string            `xml:"architecture"`
	Platform     string            `xml:"platform,omitempty"`
	State        string            `xml:"imageState"`
	Owner        string            `xml:"imageOwnerId"`
	OwnerAlias   string            `xml:"imageOwnerAlias,omitempty"`
	Created      string            `xml:"creationDate"`
	Deprecated   string            `xml:"deprecationTime,omitempty"`
	RootDevice   string            `xml:"rootDeviceName"`
	RootType     string            `xml:"rootDeviceType"`
	Devices      []imageDeviceItem `xml:"blockDeviceMapping>item"`
	Tags         []tagItem         `xml:"tagSet>item"`
}

type imageDeviceItem struct {
	Name string        `xml:"deviceName"`
	EBS  imageDiskItem `xml:"ebs"`
}

type imageDiskItem struct {
	Size     int    `xml:"volumeSize"`
	Type     string `xml:"volumeType"`
	Snapshot string `xml:"snapshotId"`
	Delete   bool   `xml:"deleteOnTermination"`
}

type imagesResponse struct {
	Items []imageItem `xml:"imagesSet>item"`
	Next  string      `xml:"nextToken,omitempty"`
}

func (e *Emulator) describeImages(c *call) (any, error) {
	filters, err := ec2Filters(c, "image-id", "name", "state", "architecture", "owner-id")
	if err != nil {
		return nil, err
	}
	ids, owners := c.Form.Strings("ImageId"), c.Form.Strings("Owner")
	for _, id := range ids {
		if e.ec2().Images[id] == nil {
			return nil, imageNotFound(id)
		}
	}
	var list []*Image
	for _, image := range e.ec2().Images {
		deprecated := !image.Deprecated.IsZero() && !image.Deprecated.After(c.now)
		if deprecated && !c.Form.Bool("IncludeDeprecated") && image.Owner != e.fixture.Account {
			continue
		}
		if len(ids) > 0 && !slices.Contains(ids, image.ID) || len(owners) > 0 && !e.ownedBy(image, owners) {
			continue
		}
		if filters.matchTags(image.Tags, map[string]string{
			"image-id": image.ID, "name": image.Name, "state": image.State, "architecture": image.Architecture, "owner-id": image.Owner,
		}) {
			list = append(list, image)
		}
	}
	page, next, err := ec2Page(c, list, func(i *Image) string { return i.ID }, 1000, 0)
	response := imagesResponse{Next: next}
	for _, i := range page {
		item := imageItem{
			ID: i.ID, Name: i.Name, Architecture: i.Architecture, Platform: i.Platform, State: i.State, Owner: i.Owner,
			OwnerAlias: i.OwnerAlias, Created: wire.Time(i.Created), RootDevice: i.RootDevice, RootType: "ebs", Tags: tagItems(i.Tags),
		}
		if !i.Deprecated.IsZero() {
			item.Deprecated = wire.Time(i.Deprecated)
		}
		for _, d := range i.blockDevices() {
			item.Devices = append(item.Devices, imageDeviceItem{
				Name: d.Name, EBS: imageDiskItem{Size: d.SizeGiB, Type: d.Type, Snapshot: stableID("snap-", i.ID+d.Name), Delete: true},
			})
		}
		response.Items = append(response.Items, item)
	}
	return response, err
}

func (e *Emulator) ownedBy(image *Image, owners []string) bool {
	return slices.ContainsFunc(owners, func(owner string) bool {
		return owner == image.Owner || owner == image.OwnerAlias && owner != "" || owner == "self" && image.Owner == e.fixture.Account
	})
}

func imageNotFound(id string) error {
	if !strings.HasPrefix(id, "ami-") || len(id) == len("ami-") {
		return wire.Errorf("InvalidAMIID.Malformed", "Invalid id: %q (expecting \"ami-...\")", id)
	}
	return wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
}
