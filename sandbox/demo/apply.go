package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

// Kinds of the first alpha, which no API server serves any more.
var unserved = []string{"karpenter.sh/v1alpha5", "karpenter.k8s.aws/v1alpha1"}

//go:embed bad.yaml
var bad []byte

func (s *show) applyAll(ctx context.Context) error {
	for _, m := range s.manifests {
		if slices.Contains(unserved, m.Object.GetAPIVersion()) {
			s.say("      %s: left for the next step", title(m))
			continue
		}
		if err := s.apply(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// applyConverted takes whole files, since a conversion moves settings from one object to another.
func (s *show) applyConverted(ctx context.Context) error {
	var sources []convert.Source
	for _, m := range s.manifests {
		if !slices.Contains(unserved, m.Object.GetAPIVersion()) || slices.ContainsFunc(sources, func(src convert.Source) bool { return src.Name == m.File }) {
			continue
		}
		text, err := os.ReadFile(m.File)
		if err != nil {
			return err
		}
		sources = append(sources, convert.Source{Name: m.File, Text: text})
	}
	result := convert.Convert(sources, convert.Options{Strict: true})
	for _, warning := range result.Warnings {
		s.say("      warning: %s", warning)
	}
	if len(result.Errors) > 0 {
		return fmt.Errorf("convert: %s", result.Errors[0])
	}
	for i, document := range result.Documents {
		text, err := document.YAML()
		if err != nil {
			return err
		}
		manifests, err := kubectl.Read(fmt.Sprintf("converted-%d", i+1), text)
		if err != nil {
			return err
		}
		for _, m := range manifests {
			if err := s.apply(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply sends one manifest, checks that nothing of it was lost in any version, and says what Dovetail
// makes of it.
func (s *show) apply(ctx context.Context, m kubectl.Manifest) error {
	if err := s.makeRoom(ctx, m); err != nil {
		return err
	}
	watched, warnings := kubectl.WithWarnings(ctx)
	stored, err := s.client.Apply(watched, m.Object)
	if err != nil {
		return fmt.Errorf("%s was refused: %w", title(m), err)
	}
	s.accepted++
	s.say("      %s: accepted", title(m))
	for _, text := range warnings.Texts() {
		s.say("          warning: %s", text)
	}
	if !ours(m.Object) {
		return nil
	}
	if lost := kubectl.Lost(m.Object.Object["spec"], stored.Object["spec"]); len(lost) > 0 {
		return fmt.Errorf("%s: read back, spec%s", title(m), lost[0])
	}
	lines, err := describe(m.Object, stored)
	if err != nil {
		return fmt.Errorf("%s: %w", title(m), err)
	}
	for _, line := range lines {
		s.say("          %s", line)
	}
	return nil
}

// makeRoom removes an object of the same name that came from another file: two users, one name.
func (s *show) makeRoom(ctx context.Context, m kubectl.Manifest) error {
	key := m.Object.GetKind() + " " + m.Object.GetName()
	if from, taken := s.applied[key]; taken {
		if err := s.client.Delete(ctx, m.Object); err != nil {
			return fmt.Errorf("remove %s of %s: %w", key, from, err)
		}
		s.say("      (removed the %s of %s, which has the same name)", key, from)
	}
	s.applied[key] = filepath.Base(m.File)
	return nil
}

// applyBad expects a refusal by the API server itself, not merely an error.
func (s *show) applyBad(ctx context.Context) error {
	manifests, err := kubectl.Read("bad.yaml", bad)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		mistake := m.Object.GetAnnotations()["mistake"]
		// Created, not applied: a server-side apply does not name unknown fields as well.
		_, err := s.client.Create(ctx, m.Object)
		if err == nil {
			return fmt.Errorf("a %s with a mistake (%s) was accepted", m.Object.GetKind(), mistake)
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			return fmt.Errorf("a %s with a mistake (%s) was not judged: %w", m.Object.GetKind(), mistake, err)
		}
		s.refused++
		s.say("      %s with a mistake, %s: refused", m.Object.GetKind(), mistake)
		s.say("          %s", status.Status().Message)
	}
	return nil
}

func ours(obj *unstructured.Unstructured) bool {
	switch obj.GroupVersionKind().Group {
	case "karpenter.sh", "karpenter.k8s.aws", "autoscaling.x-k8s.io":
		return true
	}
	return false
}

func title(m kubectl.Manifest) string {
	return fmt.Sprintf("%s  %s %s %s", filepath.Base(m.File), m.Object.GetAPIVersion(), m.Object.GetKind(), m.Object.GetName())
}
