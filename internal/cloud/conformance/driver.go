package conformance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/cloud/respond"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// DriverEnvironment is a driver under test, with what the tests need to control it. All fields are set.
type DriverEnvironment struct {
	Driver   driver.Driver
	Settings map[string]string // by flag: of the core and of the cloud, the required ones among them
	Options  driver.Options    // what Connect needs, without the settings
	Class    client.Object     // of one of the kinds, ready, as stored
	// Open is the cloud that Connect returned, in the form of the tests of a Provider.
	Open func(connected driver.Cloud) Environment
}

// RunDriver tests everything that the wiring takes from a cloud, the Provider included. Each test gets an environment of its
// own.
func RunDriver(t *testing.T, open func(t *testing.T) DriverEnvironment) {
	t.Helper()
	// any order: each has an environment of its own
	for name, test := range map[string]func(*testing.T, DriverEnvironment){
		"everything is there":                   driverIsComplete,
		"labels have one meaning":               wordsAgree,
		"settings stand beside those of core":   settingsAreRead,
		"node classes are kinds of its API":     classesAreKinds,
		"instances have names":                  instancesHaveNames,
		"gates open":                            gatesOpen,
		"what interruptions say is believed":    interruptionsAreBelieved,
		"its controllers run beside the others": controllersRegister,
		"the market is open to readers":         marketIsOpen,
		"what was made for a class is deleted":  classesAreCleaned,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
	Run(t, func(t *testing.T) Environment {
		t.Helper()
		e := open(t)
		return e.Open(e.connect(t))
	})
}

// config is the start that the settings make.
func (e *DriverEnvironment) config(t *testing.T) config.Config {
	t.Helper()
	c, err := e.load(t, e.Settings)
	if err != nil {
		t.Fatalf("settings: %v", err)
	}
	return c
}

func (e *DriverEnvironment) load(t *testing.T, settings map[string]string) (config.Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	loader := config.Bind(flags, e.Driver.Settings)
	var args []string
	for _, flag := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "--"+flag+"="+settings[flag])
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, _, err := loader.Load(func(string) (string, bool) { return "", false })
	return c, err
}

func (e *DriverEnvironment) connect(t *testing.T) driver.Cloud {
	t.Helper()
	o := e.Options
	o.Config = e.config(t)
	c, err := e.Driver.Connect(t.Context(), o)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return c
}

// pool uses the class.
func (e *DriverEnvironment) pool() *karpv1.NodePool {
	kind := e.Driver.Classes(config.Config{})[0]
	pool := &karpv1.NodePool{}
	pool.Name = "default"
	pool.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: kind.Group, Kind: kind.Kind, Name: e.Class.GetName()}
	return pool
}

func driverIsComplete(t *testing.T, e DriverEnvironment) {
	t.Helper()
	for _, v := range []reflect.Value{reflect.ValueOf(e.Driver), reflect.ValueOf(e.Driver.Classes(e.config(t))[0])} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s.%s is not set", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
}

func wordsAgree(t *testing.T, e DriverEnvironment) {
	t.Helper()
	d := e.Driver
	for _, label := range slices.Sorted(maps.Keys(reqs.CoreVocabulary().WellKnownKeys)) {
		if !d.Words.WellKnown(label) {
			t.Errorf("label %s of the core is not known", label)
		}
	}
	for _, label := range append(slices.Clone(d.Labels.Nodes), d.ReservationLabel) {
		if !d.Words.WellKnown(label) {
			t.Errorf("pools cannot rely on label %s of nodes", label)
		}
	}
	if !d.Words.NameKeys[d.ReservationLabel] {
		t.Errorf("label %s names something of an account, and snapshots without names would show it", d.ReservationLabel)
	}
	var kinds []string
	documented, _ := d.ConditionDocs()
	for _, k := range d.Classes(e.config(t)) {
		kinds = append(kinds, strings.ToLower(k.Kind))
		if !slices.ContainsFunc(documented, func(doc condition.Doc) bool { return doc.Kind == k.Kind && doc.Meaning != "" }) {
			t.Errorf("users cannot read about the conditions of %s", k.Kind)
		}
	}
	if diff := cmp.Diff(kinds, d.Labels.Classes); diff != "" {
		t.Errorf("metrics count other kinds of node classes (-kinds +metrics):\n%s", diff)
	}
}

func settingsAreRead(t *testing.T, e DriverEnvironment) {
	t.Helper()
	core := map[string]bool{}
	for _, s := range config.Settings(nil) {
		core[s.Flag] = true
	}
	for _, s := range config.Settings(e.Driver.Settings)[len(core):] {
		if core[s.Flag] {
			t.Errorf("--%s is a setting of the core", s.Flag)
		}
		if s.Usage == "" || s.Kind() == "" {
			t.Errorf("--%s is not described", s.Flag)
		}
		if !s.Required {
			continue
		}
		without := maps.Clone(e.Settings)
		delete(without, s.Flag)
		if _, err := e.load(t, without); err == nil || !strings.Contains(err.Error(), "--"+s.Flag) {
			t.Errorf("without --%s: %v, want an error that names it", s.Flag, err)
		}
	}
	once, again := e.config(t), e.config(t)
	if once.Cloud == nil {
		t.Error("the settings of the cloud are nowhere")
	}
	if diff := cmp.Diff(once, again); diff != "" {
		t.Errorf("read twice, the same settings differ:\n%s", diff)
	}
}

func classesAreKinds(t *testing.T, e DriverEnvironment) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := e.Driver.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pool := e.pool()
	before := pool.DeepCopy()
	for _, cfg := range []config.Config{{}, e.config(t)} { // kinds are asked for before settings are read
		for _, k := range e.Driver.Classes(cfg) {
			// any order: each is looked at by itself
			for object, kind := range map[runtime.Object]string{k.New(): k.Kind, k.NewList(): k.Kind + "List"} {
				if got, _, err := scheme.ObjectKinds(object); err != nil || !slices.Contains(got, k.GroupVersion().WithKind(kind)) {
					t.Errorf("%T is %v (%v), want %s", object, got, err, kind)
				}
			}
			if k.New() == k.New() {
				t.Errorf("two objects of kind %s are one", k.Kind)
			}
			if found := k.Conditions(k.New()); len(found) > 0 {
				t.Errorf("a new %s has conditions: %v", k.Kind, found)
			}
			if reflect.TypeOf(k.New()) != reflect.TypeOf(e.Class) {
				continue
			}
			if len(k.Conditions(e.Class)) == 0 {
				t.Errorf("%s %s has no condition", k.Kind, e.Class.GetName())
			}
			if refused := k.Refusals(e.Class, pool); len(refused) > 0 {
				t.Errorf("a pool that requests nothing is refused: %v", refused)
			}
		}
	}
	if diff := cmp.Diff(before, pool); diff != "" {
		t.Errorf("the pool was changed (-before +after):\n%s", diff)
	}
}

func instancesHaveNames(t *testing.T, e DriverEnvironment) {
	t.Helper()
	c := e.connect(t)
	l, lanes := e.Open(c), c.Lanes()
	one, two := l.launch(t, c, l.Claim("one")), l.launch(t, c, l.Claim("two"))
	name := e.Driver.InstanceName
	if a, b := name(string(one.ID)), name(string(two.ID)); a == "" || a == b {
		t.Errorf("%s and %s are called %q and %q", one.ID, two.ID, a, b)
	}
	if got := name(string(l.Foreign)); got != "" {
		t.Errorf("%s of another cloud is called %q", l.Foreign, got)
	}
	if lanes.Len() == 0 || c.Lanes().Len() != lanes.Len() {
		t.Errorf("%d resources at first, later %d", lanes.Len(), c.Lanes().Len())
	}
	c.Priced() // false or true, as soon as it is connected
}

func gatesOpen(t *testing.T, e DriverEnvironment) {
	t.Helper()
	c := e.connect(t)
	l := e.Open(c)
	claim := l.Claim("one")
	l.Record(claim, l.launch(t, c, claim))
	for _, gate := range c.Gates() {
		const tries = 10
		for n := 0; ; n++ {
			_, wait, err := gate.Open(t.Context(), claim)
			if err == nil && wait == 0 {
				break
			}
			if n == tries {
				t.Errorf("gate %q stays closed: wait %s, error %v", gate.Name(), wait, err)
				break
			}
			l.AdvanceTime()
		}
	}
}

func interruptionsAreBelieved(t *testing.T, e DriverEnvironment) {
	t.Helper()
	c := e.connect(t)
	l := e.Open(c)
	if list := c.Interruptions(&respond.Actor{}); len(list) == 0 || slices.Contains(list, nil) {
		t.Errorf("the sources of interruptions are %v", list)
	}
	before := offerings(l.types(t))
	var spot []offering
	// any order: they are sorted below
	for o, available := range before {
		if available && o.capacityType == karpv1.CapacityTypeSpot {
			spot = append(spot, o)
		}
	}
	if len(spot) < 2 {
		t.Fatalf("%d spot offerings are available, want some", len(spot))
	}
	slices.SortFunc(spot, func(a, b offering) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	c.SpotAtRisk(spot[1].instanceType, spot[1].zone)
	c.ReservationLost("unheard of")
	if diff := cmp.Diff(before, offerings(l.types(t)), cmp.AllowUnexported(offering{})); diff != "" {
		t.Errorf("what may be interrupted soon is out of the market already (-before +after):\n%s", diff)
	}
	c.SpotLost(spot[0].instanceType, spot[0].zone)
	want := maps.Clone(before)
	want[spot[0]] = false
	if diff := cmp.Diff(want, offerings(l.types(t)), cmp.AllowUnexported(offering{})); diff != "" {
		t.Errorf("after %v was lost (-want +got):\n%s", spot[0], diff)
	}
}

// controllersRegister: they can be added to a manager that has not reached its API server.
func controllersRegister(t *testing.T, e DriverEnvironment) {
	t.Helper()
	if err := e.connect(t).Register(cloudtest.NewManager(t, e.Driver.AddToScheme)); err != nil {
		t.Errorf("register: %v", err)
	}
}

func marketIsOpen(t *testing.T, e DriverEnvironment) {
	t.Helper()
	m, err := e.Driver.OpenMarket(t.Context(), e.config(t), "", "test")
	if err != nil {
		t.Fatalf("open the market: %v", err)
	}
	if instead, why := m.Stale(); why != nil || instead == "" {
		t.Errorf("prices could not be read: %v; instead %q", why, instead)
	}
	list, err := m.Types(e.Class, e.pool())
	if err != nil || len(list) == 0 || m.Lanes().Len() == 0 {
		t.Fatalf("%d types with %d resources, %v", len(list), m.Lanes().Len(), err)
	}
	available := 0
	for _, of := range list {
		for _, o := range of.Offerings {
			if !o.Available || o.CapacityType == karpv1.CapacityTypeReserved {
				continue
			}
			available++
			if usd, known := m.Price(of.Name, o.Zone, o.CapacityType); !known || usd != o.Price {
				t.Errorf("%s in %s, %s: the price is %v (known %v), that of the offering %v", of.Name, o.Zone, o.CapacityType, usd, known, o.Price)
			}
		}
	}
	if available == 0 {
		t.Error("nothing can be launched")
	}
	if slices.ContainsFunc(list, func(of catalog.InstanceType) bool { return of.Name == "" }) {
		t.Error("a type has no name")
	}
}

func classesAreCleaned(t *testing.T, e DriverEnvironment) {
	t.Helper()
	clean, err := e.Driver.Cleaner(t.Context(), e.config(t), "test", e.Options.Metrics)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	for range 2 { // it may be repeated
		if err := clean(t.Context(), e.Class); err != nil {
			t.Errorf("clean: %v", err)
		}
	}
	if err := clean(t.Context(), &corev1.ConfigMap{}); err == nil {
		t.Error("an object that is no node class is cleaned up after")
	}
}
