package snapshot

import (
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// ChangeError is a change that cannot be made. It says which part of it is malformed, or names what is not in the File.
type ChangeError struct{ error }

// Unwrap returns the cause.
func (e ChangeError) Unwrap() error { return e.error }

// With returns the File after a change, in the words of its cloud. The File stays as it is; both share what does not
// change. The error is a ChangeError.
func (f *File) With(change inspect.WhatIf, words reqs.Vocabulary) (*File, error) {
	if change.IsZero() {
		return f, nil
	}
	out := *f
	if err := out.change(change, words); err != nil {
		return nil, ChangeError{err}
	}
	return &out, nil
}

func (f *File) change(change inspect.WhatIf, words reqs.Vocabulary) error {
	f.Missing = append([]Missing(nil), f.Missing...)
	for _, text := range change.Set {
		if err := f.set(text, words); err != nil {
			return err
		}
	}
	if err := f.addPods(change.AddPods); err != nil {
		return err
	}
	if err := f.setPrices(change.Prices); err != nil {
		return err
	}
	for _, text := range change.Without {
		if err := f.without(text, words); err != nil {
			return err
		}
	}
	return nil
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
