package nodeclass

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// verdictTTL is how long the verdict of a dry run stands.
const verdictTTL = 30 * time.Minute

// verdicts caches the results of dry runs.
type verdicts struct {
	mu   sync.Mutex
	kept map[string]verdict // by name of the class
}

type verdict struct {
	Verdict

	subject string
	until   time.Time
}

// loadVerdict returns the verdict about a class as it is now.
func (v *verdicts) loadVerdict(class *awsv1.EC2NodeClass, now time.Time) *Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	kept, found := v.kept[class.Name]
	if !found || !now.Before(kept.until) || kept.subject != verdictKey(class) {
		return nil
	}
	return &kept.Verdict
}

// storeVerdict caches a verdict, unless it is none or may change by itself.
func (v *verdicts) storeVerdict(class *awsv1.EC2NodeClass, said Verdict, now time.Time) {
	if said.Err != nil || said.Retry {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kept == nil {
		v.kept = map[string]verdict{}
	}
	v.kept[class.Name] = verdict{Verdict: said, subject: verdictKey(class), until: now.Add(verdictTTL)}
}

func (v *verdicts) dropVerdict(class string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.kept, class)
}

// verdictKey is everything a verdict depends on. Annotations are part of it although a launch does not
// read them: touching one is how users request another try. Those of our own hash are not.
func verdictKey(class *awsv1.EC2NodeClass) string {
	annotations := map[string]string{}
	maps.Copy(annotations, class.Annotations)
	delete(annotations, awsv1.AnnotationNodeClassHash)
	delete(annotations, awsv1.AnnotationNodeClassHashVersion)
	delete(annotations, awsv1.AnnotationNodeClassFields)
	status := class.Status
	var ids []string
	for _, s := range status.Subnets {
		ids = append(ids, s.ID)
	}
	for _, g := range status.SecurityGroups {
		ids = append(ids, g.ID)
	}
	for _, r := range status.CapacityReservations {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids) // subnets change places with their free addresses
	text, err := json.Marshal([]any{class.UID, class.Spec, annotations, ids, status.AMIs, status.InstanceProfile})
	if err != nil {
		return "" // cannot happen: all of it came as JSON
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}
