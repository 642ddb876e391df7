package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// unknown stands for what is not known.
const unknown = "-"

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

// age is written as kubectl does.
func age(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// plural is a number of things.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(int64(n)) + " " + one + "s"
}

// grouped is a whole number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func hourly(usd float64) string { return fmt.Sprintf("$%.2f/h", usd) }

func monthly(usd float64) string { return "$" + grouped(perMonth(usd)) + "/month" }

func perMonth(hourly float64) int64 { return int64(hourly*inspect.HoursPerMonth + 0.5) }

// costs is what nodes cost. Unknown prices are not counted as 0.
func costs(t *inspect.Totals) (hour, month, missing string) {
	switch {
	case t.Nodes > 0 && t.Unpriced == t.Nodes:
		return "cost unknown", "", "no price is known"
	case t.Unpriced > 0:
		return "≥ " + hourly(t.Hourly), "≥ " + monthly(t.Hourly), plural(t.Unpriced, "node") + " without a known price"
	}
	return hourly(t.Hourly), monthly(t.Hourly), ""
}

// percent is a share in at most four characters.
func percent(share float64) string {
	return strconv.Itoa(min(int(share*100+0.5), 999)) + "%"
}

// quantity is an amount of a resource, in the unit of inspect.Use.
func quantity(resource string, n int64) string {
	switch resource {
	case cpu:
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
	case memory, "ephemeral-storage":
		return fmt.Sprintf("%.1fGi", float64(n)/(1<<30))
	}
	return grouped(n)
}

const (
	cpu    = "cpu"
	memory = "memory"
)

// resourceTitle is the title of a column about a resource.
func resourceTitle(resource string) string {
	switch resource {
	case "ephemeral-storage":
		return "DISK"
	case "pods":
		return "POD SLOTS"
	}
	_, last, named := strings.Cut(resource, "/")
	if !named {
		last = resource
	}
	return strings.ToUpper(last)
}

// splitPod splits namespace/name.
func splitPod(key string) inspect.Subject {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return inspect.Subject{Kind: inspect.KindPod, Name: key}
	}
	return inspect.Subject{Kind: inspect.KindPod, Namespace: namespace, Name: name}
}
