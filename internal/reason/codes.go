package reason

// Codes of the API: what a manifest got wrong, and what was read into it.
const (
	DefaultAssumed     Code = "DefaultAssumed"
	OldFieldRead       Code = "OldFieldRead"
	ShortFormRead      Code = "ShortFormRead"
	FieldIgnored       Code = "FieldIgnored"
	ProfileGivenAsRole Code = "ProfileGivenAsRole"
	NotStrict          Code = "NotStrict"
	UserDataBootstraps Code = "UserDataBootstraps"
	ImageFamilyRetired Code = "ImageFamilyRetired"

	FieldRequired     Code = "FieldRequired"
	FieldInvalid      Code = "FieldInvalid"
	FieldUnsupported  Code = "FieldUnsupported"
	FieldForbidden    Code = "FieldForbidden"
	LabelRestricted   Code = "LabelRestricted"
	LabelMalformed    Code = "LabelMalformed"
	OperatorUnknown   Code = "OperatorUnknown"
	ValuesMissing     Code = "ValuesMissing"
	ValueNotInteger   Code = "ValueNotInteger"
	ValueUnknown      Code = "ValueUnknown"
	MinValuesUnmet    Code = "MinValuesUnmet"
	TaintMalformed    Code = "TaintMalformed"
	TaintDuplicate    Code = "TaintDuplicate"
	TooManyEntries    Code = "TooManyEntries"
	BudgetUnreadable  Code = "BudgetUnreadable"
	DurationMalformed Code = "DurationMalformed"
	ValueMisspelt     Code = "ValueMisspelt"
	KubeletRefused    Code = "KubeletRefused" // have: why
)

// Doc documents one code for docs/reference/reasons.md and gives the form of its sentence, in which
// {want} and {have} stand for the fields of the Reason.
type Doc struct {
	Code    Code
	Form    string
	Meaning string
	Fix     string
}

// Codes lists every code in the order of the reference.
func Codes() []Doc {
	var all []Doc
	each(func(d Doc) bool {
		all = append(all, d)
		return true
	})
	return all
}

// each yields the documentation of every code until that is enough. It is code rather than a list so that
// looking one up makes no list of all.
func each(yield func(Doc) bool) {
	_ = apiCodes(yield) && planningCodes(yield) && podCodes(yield) && disruptionCodes(yield) && driftCodes(yield) && repairCodes(yield)
}

// apiCodes documents the codes above.
func apiCodes(yield func(Doc) bool) bool {
	return yield(Doc{DefaultAssumed, "not set; {want} is assumed", "A field the strict API requires was left out and a value was assumed.", "Nothing has to be done. Write the value down to make the manifest strict; `dovetail convert` does it."}) &&
		yield(Doc{OldFieldRead, "{have} is an old form; read as {want}", "A field or value of an older API version was read as its v1 equivalent.", "Nothing has to be done. `dovetail convert` rewrites the manifest to strict v1."}) &&
		yield(Doc{ShortFormRead, "{have} is short for {want}", "A short spelling was read as its full one.", "Nothing has to be done. `dovetail convert` writes the full spelling."}) &&
		yield(Doc{FieldIgnored, "{have} is ignored: {want} counts", "Two fields say the same thing differently, and only one counts.", "Remove the field that is ignored."}) &&
		yield(Doc{ProfileGivenAsRole, "no role is named {have}, but an instance profile is; read as {want}", "The role field names an instance profile.", "Move the name to instanceProfile."}) &&
		yield(Doc{NotStrict, "{have} is accepted only without strict compatibility; write {want}", "The manifest relies on a leniency and strict compatibility is on.", "Run `dovetail convert` on the manifest, or turn strict compatibility off."}) &&
		yield(Doc{UserDataBootstraps, "the user data calls {have} itself; it runs before the generated part, which wins", "User data of the AL2 family bootstraps the node a second time.", "Remove the bootstrap call from the user data."}) &&
		yield(Doc{ImageFamilyRetired, "{have} has no image for this Kubernetes version; {want} is used instead", "The AMI family is no longer published for the cluster's Kubernetes version.", "Name the newer family in the EC2NodeClass."}) &&
		yield(Doc{FieldRequired, "is required; set it to {want}", "A required field is missing.", "Set the field."}) &&
		yield(Doc{FieldInvalid, "{have} is not valid; want {want}", "A field holds a value outside what is allowed.", "Change the value to one of the form named."}) &&
		yield(Doc{FieldUnsupported, "{have} is not supported: {want}", "A field or feature of an older version has no equivalent.", "Remove the field; the text names what takes its place."}) &&
		yield(Doc{FieldForbidden, "may not be set: {want}", "Fields contradict each other.", "Remove one of the fields named."}) &&
		yield(Doc{LabelRestricted, "label {have} is reserved; use {want}", "A label key belongs to a domain that the controller owns.", "Use a key of your own domain, or one of the well-known labels."}) &&
		yield(Doc{LabelMalformed, "{have} is not a legal label: {want}", "A label key or value breaks the Kubernetes label syntax.", "Keep keys to an optional DNS prefix, a slash and at most 63 characters, values to at most 63."}) &&
		yield(Doc{OperatorUnknown, "operator {have} is unknown; use {want}", "A requirement uses an operator that does not exist.", "Use one of the operators named."}) &&
		yield(Doc{ValuesMissing, "operator {have} needs {want}", "A requirement has too few or too many values for its operator.", "Give the number of values named."}) &&
		yield(Doc{ValueNotInteger, "{have} is not a whole number of zero or more", "A numeric operator was given something else than one non-negative integer.", "Give one integer."}) &&
		yield(Doc{ValueUnknown, "{have} is not a known value; use one of {want}", "A label with a closed set of values was given only unknown ones.", "Use a value of the set named."}) &&
		yield(Doc{MinValuesUnmet, "minValues requires {want} values, {have} are possible", "Fewer values are listed or known than minValues demands.", "List more values or lower minValues."}) &&
		yield(Doc{TaintMalformed, "{have} is not legal in a taint: {want}", "The key or value of a taint breaks the Kubernetes label syntax.", "Keep keys to an optional DNS prefix, a slash and at most 63 characters, values to at most 63."}) &&
		yield(Doc{TaintDuplicate, "taint {have} appears more than once", "The same key and effect appear twice over taints and startupTaints.", "Keep one of them."}) &&
		yield(Doc{TooManyEntries, "has {have} entries; at most {want} are allowed", "A list or map is longer than the API allows.", "Shorten it."}) &&
		yield(Doc{BudgetUnreadable, "budget {have} cannot be read: {want}", "A disruption budget has a schedule, duration or node count that does not parse; it counts as zero.", "Correct the field named."}) &&
		yield(Doc{DurationMalformed, "{have} is not a duration; want {want}", "A duration does not follow the accepted form.", "Write it as groups of a number and s, m or h, such as 1h30m."}) &&
		yield(Doc{ValueMisspelt, "{have} does not exist; did you mean {want}?", "A NodePool names an instance type that the region does not have and that looks like one it has. The name has no effect.", "Correct the name, or remove it."}) &&
		yield(Doc{KubeletRefused, "{have}", "The kubelet block of a NodePool, which is the v1beta1 place of these settings, has a field that may not be set there or a value that is not valid. No node of the pool is launched.", "Correct the field named, or move it to spec.kubelet of the EC2NodeClass."})
}
