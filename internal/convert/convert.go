package convert

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// DefaultNodeRole stands for the role of nodes that an AWSNodeTemplate did not name; envsubst
// replaces it.
const DefaultNodeRole = "$KARPENTER_NODE_ROLE"

const bufferGroup = "autoscaling.x-k8s.io"

// Options of a conversion.
type Options struct {
	IgnoreDefaults bool   // leave out the requirements that v1alpha5 added by itself
	NodeRole       string // role where an AWSNodeTemplate has no instance profile; "" is DefaultNodeRole
	Strict         bool   // unknown kinds and fields are errors
	// Judge returns what the API server would refuse in an object; nil accepts everything.
	Judge func(object map[string]any) []Refusal
}

// Refusal is one thing the API server would not take.
type Refusal struct {
	Field string
	Text  string
}

// Result of a conversion. With errors there are no documents: half of an input is worse than none.
type Result struct {
	Documents []Document
	Warnings  []Finding
	Errors    []Finding
}

// Convert rewrites all documents of all sources together, since a kubelet block moves from a pool to
// the class it names.
func Convert(sources []Source, opts Options) Result {
	if opts.NodeRole == "" {
		opts.NodeRole = DefaultNodeRole
	}
	b := &batch{opts: opts}
	for _, src := range sources {
		docs, faults := read(src)
		b.result.Errors = append(b.result.Errors, faults...)
		for _, d := range docs {
			b.add(d)
		}
	}
	b.reportDuplicates()
	b.moveKubelets()
	for _, e := range b.entries {
		doc, err := e.render()
		if err != nil {
			b.fail(e.doc, "", err.Error())
			continue
		}
		b.validateEntry(e, doc)
		b.result.Documents = append(b.result.Documents, doc)
	}
	if len(b.result.Errors) > 0 {
		b.result.Documents = nil
	}
	inReadingOrder(b.result.Warnings, sources)
	inReadingOrder(b.result.Errors, sources)
	return b.result
}

// inReadingOrder sorts findings by source and line; those of one line keep their order.
func inReadingOrder(findings []Finding, sources []Source) {
	place := map[string]int{}
	for i, src := range sources {
		place[src.Name] = i
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(place[a.Source], place[b.Source]), cmp.Compare(a.Line, b.Line))
	})
}

// batch is one conversion under way.
type batch struct {
	opts    Options
	entries []*entry
	result  Result
}

// entry is one document of the output: a pool, a class, a claim, or the document as it came.
type entry struct {
	doc   *document
	pool  *karpv1.NodePool
	class *awsv1.EC2NodeClass
	claim *karpv1.NodeClaim
	// known is set for a document of a kind of ours that is passed through.
	known bool
	// apiVersion replaces that of a document that is otherwise passed through.
	apiVersion string
	// kubeletField is where the kubelet block of the pool came from.
	kubeletField string
	// spelling holds quantities as the user wrote them, by path in the output.
	spelling map[string]string
}

func (b *batch) warn(d *document, field, text string) {
	b.result.Warnings = append(b.result.Warnings, d.finding(field, text))
}

func (b *batch) fail(d *document, field, text string) {
	b.result.Errors = append(b.result.Errors, d.finding(field, text))
}

// warnOrFail is a warning, or an error where the user requested strictness.
func (b *batch) warnOrFail(d *document, field, text string) {
	if b.opts.Strict {
		b.fail(d, field, text)
		return
	}
	b.warn(d, field, text)
}

func (b *batch) add(d *document) {
	for _, field := range []string{"apiVersion", "kind"} {
		if _, isText := d.tree[field].(string); d.tree[field] != nil && !isText {
			b.fail(d, field, "must be text")
			return
		}
	}
	gvk := d.gvk()
	switch gvk.GroupKind() {
	case schema.GroupKind{Group: karpv1.Group, Kind: "NodePool"}:
		b.addPool(d)
	case schema.GroupKind{Group: karpv1.Group, Kind: "NodeClaim"}:
		b.addClaim(d)
	case schema.GroupKind{Group: awsv1.Group, Kind: awsv1.Kind}:
		b.addClass(d)
	case schema.GroupKind{Group: karpv1.Group, Kind: "Provisioner"}:
		b.addProvisioner(d)
	case schema.GroupKind{Group: awsv1.Group, Kind: "AWSNodeTemplate"}:
		b.addNodeTemplate(d)
	case schema.GroupKind{Group: karpv1.Group, Kind: "NodeOverlay"}:
		if b.versionKnown(d, "v1alpha1") {
			b.entries = append(b.entries, &entry{doc: d, known: true})
		}
	case schema.GroupKind{Group: bufferGroup, Kind: "CapacityBuffer"}:
		if b.versionKnown(d, "v1beta1", "v1alpha1") {
			b.entries = append(b.entries, &entry{doc: d, known: true, apiVersion: bufferGroup + "/v1beta1"})
		}
	default:
		what := "kind " + gvk.Kind + " of " + d.apiVersion() + " is not one to convert; passed through as it is"
		if gvk.Kind == "" {
			what = "has no kind; passed through as it is"
		}
		b.warnOrFail(d, "", what)
		b.entries = append(b.entries, &entry{doc: d})
	}
}

// versionKnown refuses versions whose meaning is not known.
func (b *batch) versionKnown(d *document, known ...string) bool {
	if slices.Contains(known, d.gvk().Version) {
		return true
	}
	b.fail(d, "apiVersion", fmt.Sprintf("version %q of %s is not known; want one of %v", d.gvk().Version, d.gvk().Kind, known))
	return false
}

func (b *batch) addPool(d *document) {
	pool := &karpv1.NodePool{}
	if !b.versionKnown(d, "v1", "v1beta1") || !b.decode(d, pool) || !b.checkName(d, &pool.ObjectMeta) {
		return
	}
	canonical, notes := pool.Canonical(false)
	notes = slices.DeleteFunc(notes, func(n reason.Reason) bool { return n.Rule == "CV-06" }) // moveKubelets reports it
	b.report(d, notes)
	b.entries = append(b.entries, &entry{doc: d, pool: canonical, kubeletField: "spec.template.spec.kubelet", spelling: limitSpelling(d, "limits")})
}

func (b *batch) addClaim(d *document) {
	claim := &karpv1.NodeClaim{}
	if !b.versionKnown(d, "v1", "v1beta1") || !b.decode(d, claim) || !b.checkName(d, &claim.ObjectMeta) {
		return
	}
	hadExpiry := claim.Spec.ExpireAfter != ""
	effective, notes := claim.Effective(nil, false)
	b.report(d, notes)
	if !hadExpiry {
		effective.Spec.ExpireAfter = "" // the owning pool decides, and it is not known here
	}
	if effective.Spec.Kubelet != nil {
		b.warnOrFail(d, "spec.kubelet", "a NodeClaim of v1 has no kubelet block; the one of its EC2NodeClass counts")
		effective.Spec.Kubelet = nil
	}
	b.entries = append(b.entries, &entry{doc: d, claim: effective})
}

func (b *batch) addClass(d *document) {
	class := &awsv1.EC2NodeClass{}
	if !b.versionKnown(d, "v1", "v1beta1") || !b.decode(d, class) || !b.checkName(d, &class.ObjectMeta) {
		return
	}
	if d.gvk().Version == "v1beta1" {
		class.DefaultOld()
	}
	b.entries = append(b.entries, &entry{doc: d, class: b.canonicalClass(d, class), spelling: volumeSpelling(d)})
}

// canonicalClass rewrites a class.
func (b *batch) canonicalClass(d *document, class *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	const groups = "spec.securityGroupSelectorTerms"
	canonical, notes := class.Canonical(false)
	notes = slices.DeleteFunc(notes, func(n reason.Reason) bool { return n.Rule == "L-08" }) // strict v1 has no fallback
	b.report(d, notes)
	switch derived := len(class.Spec.SecurityGroupSelectorTerms) == 0; {
	case derived && len(canonical.Spec.SecurityGroupSelectorTerms) == 0:
		b.warnOrFail(d, groups, "is required by strict v1 and cannot be derived from subnets picked by id; without it Dovetail uses the security group of the cluster")
	case derived:
		b.warn(d, groups, "not set; written as the tags of subnetSelectorTerms. Should these match no group, name one: the fallback to the security group of the cluster ends here (L-08)")
	}
	return canonical
}

// report turns what was read into a manifest into warnings, and what makes it unusable into errors.
func (b *batch) report(d *document, notes []reason.Reason) {
	refused := reason.Refusals(notes)
	for _, n := range notes {
		field := n.Subject
		n.Subject = ""
		if slices.ContainsFunc(refused, func(r reason.Reason) bool { return r.Subject == field && r.Code == n.Code }) {
			b.fail(d, field, n.Text())
		} else {
			b.warn(d, field, n.Text())
		}
	}
}

// checkName checks the name and drops what the server or a controller set.
func (b *batch) checkName(d *document, meta *metav1.ObjectMeta) bool {
	if meta.Name == "" {
		text := "is required"
		if meta.GenerateName != "" {
			text = "is required; generateName is not enough, since other objects refer to the name"
		}
		b.fail(d, "metadata.name", text)
		return false
	}
	*meta = keptMeta(*meta)
	return true
}

// keptMeta is the part of the metadata that belongs to the user. Hashes and the last applied
// configuration describe the object before the conversion and would only mislead.
func keptMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{Name: meta.Name, Labels: meta.Labels}
	// any order: each is independent of the others
	for key, value := range meta.Annotations {
		switch key {
		case "kubectl.kubernetes.io/last-applied-configuration",
			karpv1.AnnotationNodePoolHash, karpv1.AnnotationNodePoolHashVersion, karpv1.AnnotationNodePoolFields,
			karpv1.Group + "/provisioner-hash", awsv1.Group + "/nodetemplate-hash",
			awsv1.AnnotationNodeClassHash, awsv1.AnnotationNodeClassHashVersion, awsv1.AnnotationNodeClassFields:
		default:
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[key] = value
		}
	}
	return kept
}

// validateEntry checks whether the API server would take what is about to be written, and if so what the controller
// would say of it in condition ValidationSucceeded of a pool.
func (b *batch) validateEntry(e *entry, doc Document) {
	if e.pool == nil && e.class == nil && e.claim == nil && !e.known {
		return
	}
	var refusals []Refusal
	if b.opts.Judge != nil {
		refusals = b.opts.Judge(doc.tree)
	}
	for _, r := range refusals {
		b.fail(e.doc, r.Field, r.Text)
	}
	if e.pool == nil || len(refusals) > 0 { // the same would be reported twice
		return
	}
	problems, _ := e.pool.Validate(awsv1.Vocabulary())
	for _, p := range problems {
		field := p.Subject
		p.Subject = ""
		b.warnOrFail(e.doc, field, p.Text())
	}
}

// reportDuplicates names documents that would overwrite each other when they are applied.
func (b *batch) reportDuplicates() {
	first := map[string]*document{}
	for _, e := range b.entries {
		key := e.identity()
		if key == "" {
			continue
		}
		if other, taken := first[key]; taken {
			b.warnOrFail(e.doc, "metadata.name", fmt.Sprintf("the same %s is at %s:%d too; applied together, the last one counts", key, other.source, other.lineOf("metadata.name")))
			continue
		}
		first[key] = e.doc
	}
}

// identity is kind and name of what the entry is written as.
func (e *entry) identity() string {
	switch {
	case e.pool != nil:
		return "NodePool " + e.pool.Name
	case e.class != nil:
		return awsv1.Kind + " " + e.class.Name
	case e.claim != nil:
		return "NodeClaim " + e.claim.Name
	default:
		return ""
	}
}
