package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/condition"
)

// glance is how often the scene is looked at. People do not see more.
const glance = 250 * time.Millisecond

// waitUntil polls until something holds. The text says how it is, for the message when time
// is up. What fails in the background ends it at once.
func (s *demoRun) waitUntil(ctx context.Context, limit time.Duration, what string, holds func(context.Context) (bool, string, error)) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		ok, now, err := holds(ctx)
		if err != nil || ok {
			return err
		}
		if err := s.stillWell(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-deadline.C:
			s.live.finishLine()
			return fmt.Errorf("not within %s: %s\n%s%s", limit, what, indentText(now), s.controllerComplaints(ctx))
		}
	}
}

// waitForView waits for a scene, and shows what happens meanwhile.
func (s *demoRun) waitForView(ctx context.Context, limit time.Duration, what string, holds func(*clusterView) bool) (*clusterView, error) {
	began := time.Now()
	var now *clusterView
	err := s.waitUntil(ctx, limit, what, func(ctx context.Context) (bool, string, error) {
		var err error
		if now, err = s.readClusterView(ctx); err != nil {
			return false, "", err
		}
		s.live.updateLine(time.Since(began), now.summaryLine())
		return holds(now), now.unreadyClaims(), nil
	})
	return now, err
}

// unreadyClaims are the claims that are not ready, with their conditions.
func (n *clusterView) unreadyClaims() string {
	text := []string{n.summaryLine() + "\n"}
	for i := range n.claims {
		if c := &n.claims[i]; claimStage(c) != "ready" {
			text = append(text, sayConditions("NodeClaim "+c.Name, c.Status.Conditions))
		}
	}
	return strings.Join(text, "")
}

// controllerComplaints are what the controller said last about pods that it cannot place, and its last errors.
func (s *demoRun) controllerComplaints(ctx context.Context) string {
	var text strings.Builder
	var events eventsv1.EventList
	if err := s.kube.List(ctx, &events); err == nil {
		seen := map[string]bool{}
		for _, e := range events.Items {
			if e.Type != corev1.EventTypeWarning || e.ReportingController != "karpenter" || seen[e.Reason] {
				continue
			}
			seen[e.Reason] = true
			fmt.Fprintf(&text, "  event %s on %s %s: %s\n", e.Reason, e.Regarding.Kind, e.Regarding.Name, e.Note)
		}
	}
	const most = 3
	var wrong []string
	_ = s.readLog(func(line map[string]any) { // what is there is logged
		if line["level"] == "ERROR" {
			wrong = append(wrong, fmt.Sprintf("  log: %v: %v\n", line["message"], line["error"]))
		}
	})
	for _, line := range wrong[max(0, len(wrong)-most):] {
		text.WriteString(line)
	}
	return text.String()
}

// plans are what the planner said of those it made so far.
type plans struct {
	count int
	price float64 // USD per hour, of all together
	bound float64 // no plan for the pods costs less; of several, each is a bound for all pods, so the largest counts
}

// loggedPlans reads the log.
func (s *demoRun) loggedPlans() plans {
	var made plans
	_ = s.readLog(func(line map[string]any) { // without a log there is no plan either
		if line["message"] != "computed new nodeclaim(s) to fit pod(s)" {
			return
		}
		made.count++
		if value, isNumber := line["price"].(float64); isNumber {
			made.price += value
		}
		if value, isNumber := line["lower-bound"].(float64); isNumber {
			made.bound = max(made.bound, value)
		}
	})
	return made
}

// moves are what consolidation did so far.
type moves struct {
	pods  int     // that had to move
	bound float64 // no cluster for the pods costs less; of several, the last counts
}

// loggedMoves reads the log.
func (s *demoRun) loggedMoves() moves {
	var made moves
	_ = s.readLog(func(line map[string]any) { // without a log nothing was moved
		if line["message"] != "disrupting node(s)" || line["reason"] != "underutilized" {
			return
		}
		if value, isNumber := line["pod-count"].(float64); isNumber {
			made.pods += int(value)
		}
		if value, isNumber := line["lower-bound"].(float64); isNumber {
			made.bound = value
		}
	})
	return made
}

// readLog reads the log of the controller, a line at a time.
func (s *demoRun) readLog(each func(map[string]any)) error {
	file, err := os.Open(s.controller.Log)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(file)
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	for lines.Scan() {
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			each(line)
		}
	}
	return errors.Join(lines.Err(), file.Close())
}

// sayConditions lists what is not True, or that all is.
func sayConditions(name string, list []metav1.Condition) string {
	var text strings.Builder
	for _, c := range list {
		if !condition.True(list, c.Type) {
			fmt.Fprintf(&text, "%s: %s is %s, %s: %s\n", name, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	if len(list) == 0 {
		fmt.Fprintf(&text, "%s: the controller has not looked at it yet\n", name)
	}
	return text.String()
}

func indentText(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("  " + line)
	}
	return out.String()
}
