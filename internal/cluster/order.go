package cluster

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Order is what a replacement says of the command that ordered it.
type Order struct {
	Token    string
	Replaces []string // claims
	Of       int      // replacements of the command
	Reason   karpv1.DisruptionReason
	Type     string
	ID       string
	Decided  time.Time
	Bound    *time.Duration
	Because  string
}

// orderText is the text of an Order, without the names of claims.
type orderText struct {
	ID      string                  `json:"id"`
	Reason  karpv1.DisruptionReason `json:"reason"`
	Type    string                  `json:"type,omitempty"`
	Of      int                     `json:"of"`
	Decided int64                   `json:"decided"` // milliseconds
	Bound   string                  `json:"bound,omitempty"`
	Because string                  `json:"because,omitempty"`
}

// CommandToken identifies a command, also among commands for the same nodes at other times.
func CommandToken(id string, decided time.Time) string {
	return id + "-" + strconv.FormatInt(decided.UnixMilli(), 36)
}

// Annotations are those that a replacement carries, for the process that comes after this one. The token is not
// among them: it follows from the rest.
func (o *Order) Annotations() map[string]string {
	written := orderText{ID: o.ID, Reason: o.Reason, Type: o.Type, Of: o.Of, Decided: o.Decided.UnixMilli(), Because: o.Because}
	if o.Bound != nil {
		written.Bound = o.Bound.String()
	}
	text, err := json.Marshal(written)
	if err != nil {
		return nil // cannot be: numbers and text
	}
	return map[string]string{karpv1.AnnotationReplaces: strings.Join(o.Replaces, ","), karpv1.AnnotationCommand: string(text)}
}

// ReadOrder reads what Annotations wrote. Text of anybody else is no order.
func ReadOrder(annotations map[string]string) (Order, bool) {
	names, text := annotations[karpv1.AnnotationReplaces], annotations[karpv1.AnnotationCommand]
	if names == "" { // as of most claims; every snapshot looks at all of them
		return Order{}, false
	}
	var o orderText
	if json.Unmarshal([]byte(text), &o) != nil || o.ID == "" || o.Of < 1 {
		return Order{}, false
	}
	out := Order{
		Replaces: strings.Split(names, ","), Of: o.Of, Reason: o.Reason, Type: o.Type, ID: o.ID, Decided: time.UnixMilli(o.Decided), Because: o.Because,
	}
	if o.Bound != "" {
		bound, err := time.ParseDuration(o.Bound)
		if err != nil {
			return Order{}, false
		}
		out.Bound = &bound
	}
	out.Token = CommandToken(out.ID, out.Decided)
	return out, true
}
