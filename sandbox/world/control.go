package world

import (
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// nodeFault is the body of the control "nodes": what goes wrong on which nodes. Lengths of time are
// text, such as 90s.
type nodeFault struct {
	Name     string            `json:"name"`
	Selector fakenode.Selector `json:"selector"`

	NeverJoin           bool                  `json:"neverJoin,omitempty"`
	JoinLate            awsemu.Duration       `json:"joinLate,omitempty"`
	JoinTwice           bool                  `json:"joinTwice,omitempty"`
	Rejoin              bool                  `json:"rejoin,omitempty"`
	ProviderIDLate      awsemu.Duration       `json:"providerIDLate,omitempty"`
	CSINodeLate         awsemu.Duration       `json:"csiNodeLate,omitempty"`
	NeverReady          bool                  `json:"neverReady,omitempty"`
	Flap                awsemu.Duration       `json:"flap,omitempty"`
	MemoryLoss          float64               `json:"memoryLoss,omitempty"`
	Without             []corev1.ResourceName `json:"without,omitempty"`
	Zero                []corev1.ResourceName `json:"zero,omitempty"`
	NoUnregisteredTaint bool                  `json:"noUnregisteredTaint,omitempty"`
	StartupTaintsLate   awsemu.Duration       `json:"startupTaintsLate,omitempty"`
	DetachLate          awsemu.Duration       `json:"detachLate,omitempty"`
	Dead                bool                  `json:"dead,omitempty"`

	Conditions map[corev1.NodeConditionType]corev1.ConditionStatus `json:"conditions,omitempty"`
}

func (f nodeFault) toFault() fakenode.Fault {
	return fakenode.Fault{
		NeverJoin: f.NeverJoin, JoinLate: time.Duration(f.JoinLate), NeverReady: f.NeverReady, Flap: time.Duration(f.Flap), MemoryLoss: f.MemoryLoss,
		JoinTwice: f.JoinTwice, Rejoin: f.Rejoin, ProviderIDLate: time.Duration(f.ProviderIDLate), CSINodeLate: time.Duration(f.CSINodeLate),
		Zero: f.Zero, Conditions: f.Conditions, DetachLate: time.Duration(f.DetachLate),
		Without: f.Without, NoUnregisteredTaint: f.NoUnregisteredTaint, StartupTaintsLate: time.Duration(f.StartupTaintsLate), Dead: f.Dead,
	}
}

// kubeFault is the body of the control "kube": what goes wrong with requests through the proxy.
type kubeFault struct {
	Verb     string          `json:"verb,omitempty"`
	Resource string          `json:"resource,omitempty"`
	Name     string          `json:"name,omitempty"`
	Count    int             `json:"count,omitempty"`
	Latency  awsemu.Duration `json:"latency,omitempty"`
	Status   int             `json:"status,omitempty"`
	Drop     bool            `json:"drop,omitempty"`
	CutAfter awsemu.Duration `json:"cutAfter,omitempty"`
}

// addControls lets nodes and the API server be disturbed through the same control API as AWS.
func (w *World) addControls() {
	w.AWS.Control("nodes", map[string]func([]byte) (any, error){
		http.MethodGet: func([]byte) (any, error) { return w.Nodes.Faults().List(), nil },
		http.MethodPost: func(body []byte) (any, error) {
			var f nodeFault
			if err := awsemu.Strictly(body, &f); err != nil {
				return nil, err
			}
			if f.Name == "" {
				return nil, fmt.Errorf("name: is required, so that the fault can be ended again")
			}
			w.Nodes.Faults().Set(f.Name, f.Selector, f.toFault())
			return nil, nil
		},
		http.MethodDelete: func(body []byte) (any, error) {
			if len(body) == 0 {
				for _, f := range w.Nodes.Faults().List() {
					w.Nodes.Faults().Clear(f.Name)
				}
				return nil, nil
			}
			var f nodeFault
			if err := awsemu.Strictly(body, &f); err != nil {
				return nil, err
			}
			if !w.Nodes.Faults().Clear(f.Name) {
				return nil, fmt.Errorf("name: no fault %q is in force", f.Name)
			}
			return nil, nil
		},
	})
	w.AWS.Control("kube", map[string]func([]byte) (any, error){
		http.MethodGet:    func([]byte) (any, error) { return w.Proxy.Faults(), nil },
		http.MethodDelete: func([]byte) (any, error) { return nil, w.Proxy.Set() },
		http.MethodPost: func(body []byte) (any, error) {
			var f kubeFault
			if err := awsemu.Strictly(body, &f); err != nil {
				return nil, err
			}
			_, err := w.Proxy.Add(apiproxy.Fault{
				Verb: f.Verb, Resource: f.Resource, Name: f.Name, Count: f.Count, Latency: time.Duration(f.Latency), Status: f.Status, Drop: f.Drop, CutAfter: time.Duration(f.CutAfter),
			})
			return nil, err
		},
	})
}
