package v1

// Tags a resource must have; a value of * matches any value.
// +kubebuilder:validation:MaxProperties=20
// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) > 0 && size(self[k]) > 0)",message="tags need a key and a value; use * to match any value"
type Tags map[string]string

// SubnetSelectorTerm picks subnets by tags or by id.
type SubnetSelectorTerm struct {
	// +optional
	Tags Tags `json:"tags,omitempty"`
	// +kubebuilder:validation:Pattern=`subnet-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
}

// SecurityGroupSelectorTerm picks security groups by tags, by id or by group name.
type SecurityGroupSelectorTerm struct {
	// +optional
	Tags Tags `json:"tags,omitempty"`
	// +kubebuilder:validation:Pattern=`sg-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// Name is the name of the group, not its Name tag.
	// +optional
	Name string `json:"name,omitempty"`
}

// AMISelectorTerm picks machine images.
type AMISelectorTerm struct {
	// Alias is a family and a version, such as al2023@latest; without a version, latest.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+(@.+)?$')",message="alias has the form family@version, such as al2023@latest"
	// +kubebuilder:validation:XValidation:rule="self.split('@')[0] in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",message="the family of an alias is one of al2, al2023, bottlerocket, windows2019, windows2022, windows2025"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('windows') || self.split('@').size() < 2 || self.split('@')[1] == 'latest'",message="windows aliases have no version but latest"
	// +optional
	Alias string `json:"alias,omitempty"`
	// +optional
	Tags Tags `json:"tags,omitempty"`
	// +kubebuilder:validation:Pattern=`ami-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// Owner is an account id, self or amazon.
	// +optional
	Owner string `json:"owner,omitempty"`
	// SSMParameter is the name or ARN of a parameter that holds an image id.
	// +optional
	SSMParameter string `json:"ssmParameter,omitempty"`
}

// CapacityReservationSelectorTerm picks capacity reservations.
type CapacityReservationSelectorTerm struct {
	// +optional
	Tags Tags `json:"tags,omitempty"`
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +optional
	OwnerID string `json:"ownerID,omitempty"`
	// +kubebuilder:validation:Enum=open;targeted
	// +optional
	InstanceMatchCriteria string `json:"instanceMatchCriteria,omitempty"`
}

// PlacementGroupSelector names a placement group.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.id)",message="set exactly one of name and id"
type PlacementGroupSelector struct {
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:Pattern=`^pg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}
