package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"
)

// hourly is what a node costs an hour.
func hourly(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 4, 64) }

// Amount writes an amount of a resource in the unit of Use, as short as people read it: memory with one digit at most.
func Amount(name string, n int64) string {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		for _, unit := range []struct {
			name string
			size int64
		}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
			if n >= unit.size || -n >= unit.size {
				text := strconv.FormatFloat(float64(n)/float64(unit.size), 'f', 1, 64)
				return strings.TrimSuffix(text, ".0") + unit.name
			}
		}
		return strconv.FormatInt(n, 10)
	default:
		return resource.NewQuantity(n, resource.DecimalSI).String()
	}
}

// amounts writes amounts of resources, CPU and memory first.
func amounts(list map[string]int64) string {
	var texts []string
	for _, name := range resourceNames(list) {
		texts = append(texts, Amount(name, list[name])+" "+resourceWord(name))
	}
	return sentence(texts)
}

// resourceWord is how a resource is called in a sentence.
func resourceWord(name string) string {
	if name == string(corev1.ResourceCPU) {
		return "CPU"
	}
	return name
}

// resourceNames are the keys of a map in the order in which they are shown.
func resourceNames[T any](list map[string]T) []string {
	first := []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory)}
	var names, rest []string
	for _, name := range first {
		if _, there := list[name]; there {
			names = append(names, name)
		}
	}
	// any order: they are sorted below
	for name := range list {
		if !slices.Contains(first, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	return append(names, rest...)
}

// sentence joins texts as a sentence does.
func sentence(texts []string) string {
	if n := len(texts); n > 1 {
		return strings.Join(texts[:n-1], ", ") + " and " + texts[n-1]
	}
	return strings.Join(texts, "")
}

// some names a few of a list, and counts the others.
func some(list []string) string {
	const few = 3
	if more := len(list) - few; more > 1 {
		return strings.Join(list[:few], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return sentence(list)
}

// age is how long something has been.
func age(since, now time.Time) string {
	if since.IsZero() {
		return "?"
	}
	return duration.HumanDuration(now.Sub(since))
}

func percentage(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// upper is a text that begins a sentence.
func upper(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
