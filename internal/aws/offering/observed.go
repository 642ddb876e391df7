package offering

import (
	"hash/maphash"
	"slices"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// observedFor is how long an observed size is used.
const observedFor = 60 * 24 * time.Hour

// observations is the memory and the storage that nodes were seen to have: memory by set of images, storage
// by set of images and devices.
type observations map[uint64]*observed

// observed is what nodes of one such set reported.
type observed struct {
	sizes   map[string]observedSize // by instance type
	next    time.Time               // when the first is too old
	version uint64
}

type observedSize struct {
	bytes int64
	until time.Time
}

// add keeps a size if it is the first of its type or not larger than the one known: nodes must not turn
// out smaller than planned (B14).
func (o observations) add(images uint64, instanceType string, bytes int64, now time.Time) {
	if bytes <= 0 {
		return
	}
	seen := o[images]
	if seen == nil {
		seen = &observed{sizes: map[string]observedSize{}}
		o[images] = seen
	}
	known, again := seen.sizes[instanceType]
	again = again && now.Before(known.until)
	if again && bytes > known.bytes {
		return
	}
	until := now.Add(observedFor)
	seen.sizes[instanceType] = observedSize{bytes: bytes, until: until}
	if seen.next.IsZero() || until.Before(seen.next) {
		seen.next = until
	}
	if !again || bytes != known.bytes {
		seen.version++
	}
}

// version rises when a size changes or becomes too old.
func (o observations) version(images uint64, now time.Time) uint64 {
	seen := o[images]
	if seen == nil {
		return 0
	}
	if !now.Before(seen.next) {
		seen.sweep(now)
	}
	return seen.version
}

func (o *observed) sweep(now time.Time) {
	o.next = now.Add(observedFor)
	// any order: each expires by itself, and the earliest of the rest is kept
	for name, s := range o.sizes {
		switch {
		case !now.Before(s.until):
			delete(o.sizes, name)
			o.version++
		case s.until.Before(o.next):
			o.next = s.until
		}
	}
}

// bytes by instance type.
func (o observations) bytes(images uint64) map[string]int64 {
	seen := o[images]
	if seen == nil {
		return nil
	}
	sizes := make(map[string]int64, len(seen.sizes))
	for name, s := range seen.sizes {
		sizes[name] = s.bytes
	}
	return sizes
}

// imagesKey stands for the set of images of a class, in whatever order.
func imagesKey(class *awsv1.EC2NodeClass) uint64 {
	ids := make([]string, 0, len(class.Status.AMIs))
	for i := range class.Status.AMIs {
		ids = append(ids, class.Status.AMIs[i].ID)
	}
	slices.Sort(ids)
	var h digest
	h.SetSeed(seed)
	for _, id := range slices.Compact(ids) {
		h.text(id)
	}
	return h.Sum64()
}

// disksKey stands for what the ephemeral storage of a class's nodes depends on beside the machine.
func disksKey(class *awsv1.EC2NodeClass) uint64 {
	var h digest
	h.SetSeed(seed)
	h.text("disks")
	h.number(int64(imagesKey(class)))
	h.text(string(class.Family()))
	h.optional(class.Spec.InstanceStorePolicy)
	h.devices(class.Spec.BlockDeviceMappings)
	return h.Sum64()
}

// seed of all digests; they never leave the process.
var seed = maphash.MakeSeed()
