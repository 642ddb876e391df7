package snapshot

import (
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// With returns the File after a change, in the words of its cloud. The File stays as it is; both share what does not
// change. The error says which part of the change is malformed, or names what is not in the File.
func (f *File) With(change inspect.WhatIf, words reqs.Vocabulary) (*File, error) {
	if change.IsZero() {
		return f, nil
	}
	out := *f
	out.Missing = append([]Missing(nil), f.Missing...)
	for _, text := range change.Set {
		if err := out.set(text, words); err != nil {
			return nil, err
		}
	}
	if err := out.addPods(change.AddPods); err != nil {
		return nil, err
	}
	if err := out.setPrices(change.Prices); err != nil {
		return nil, err
	}
	for _, text := range change.Without {
		if err := out.without(text, words); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// ownCatalogues makes the instance types of the File writable: those of another File stay as they are.
func (f *File) ownCatalogues() {
	list := make([]Catalogue, len(f.Catalogues))
	for i, c := range f.Catalogues {
		types := make([]InstanceType, len(c.InstanceTypes))
		for j, t := range c.InstanceTypes {
			t.Offerings = append([]Offering(nil), t.Offerings...)
			types[j] = t
		}
		c.InstanceTypes = types
		list[i] = c
	}
	f.Catalogues = list
}

// eachOffering calls a function for every offering.
func (f *File) eachOffering(do func(t *InstanceType, o *Offering)) {
	for i := range f.Catalogues {
		for j := range f.Catalogues[i].InstanceTypes {
			t := &f.Catalogues[i].InstanceTypes[j]
			for k := range t.Offerings {
				do(t, &t.Offerings[k])
			}
		}
	}
}
