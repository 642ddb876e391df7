package userdata_test

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/userdata"
)

func addSeeds(f *testing.F) {
	f.Helper()
	for _, family := range families() {
		f.Add(own(family))
	}
	for _, text := range []string{
		"", archive, nodeConfig, "a: b", "Content-Type: text/plain\n\nx", strings.ReplaceAll(archive, "BOUNDARY", "//"),
		"Content-Type: multipart/mixed; boundary=x\n\n--x\n\n--//--\n--x--", "#!/bin/sh\n--//--\n--//1--", "--//",
		"Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/x-shellscript\n\ncut off",
		"a = [[1, 'x', {b = 1979-05-27}], 07:32:00]", "[settings.kubernetes.node-labels]\n'' = 1", "[[settings.a]]\nb = nan",
		"</powershell>", "<power<powershell>shell>",
	} {
		f.Add(text)
	}
}

// Whatever people write, the generated part is there, is last, and is the same.
func FuzzArchive(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, user string) {
		for _, family := range []string{ami.AL2, ami.AL2023} {
			in := plain(family)
			alone, err := userdata.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			in.User = user
			text, err := userdata.Render(in)
			if err != nil {
				continue
			}
			want, got := parts(t, alone), parts(t, text)
			if len(want) != 1 || len(got) == 0 || got[len(got)-1] != want[0] {
				t.Errorf("%s: the generated part is not the last\n%s", family, text)
			}
		}
	})
}

func parts(t *testing.T, text string) []string {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	reader := multipart.NewReader(message.Body, params["boundary"])
	var list []string
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		list = append(list, part.Header.Get("Content-Type")+"\n"+string(body))
	}
}

// Whatever TOML people write, ours is in it and the whole can be read again.
func FuzzBottlerocket(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, user string) {
		in := plain(ami.Bottlerocket)
		in.RAID0, in.User = true, user
		text, err := userdata.Render(in)
		if err != nil {
			return
		}
		var document struct {
			Settings struct {
				Kubernetes struct {
					ClusterName string         `toml:"cluster-name"`
					MaxPods     int            `toml:"max-pods"`
					Labels      map[string]any `toml:"node-labels"`
				} `toml:"kubernetes"`
			} `toml:"settings"`
		}
		if _, err := toml.Decode(text, &document); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if k := document.Settings.Kubernetes; k.ClusterName != "demo" || k.MaxPods != 29 || k.Labels["karpenter.sh/nodepool"] != "default" {
			t.Errorf("%+v\n%s", k, text)
		}
	})
}

func FuzzWindows(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, user string) {
		in := plain(ami.Windows2022)
		in.User = user
		text, err := userdata.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		lower := strings.ToLower(text)
		if strings.Count(lower, "<powershell>") != 1 || strings.Count(lower, "</powershell>") != 1 ||
			strings.Index(text, "-EKSClusterName 'demo'") > strings.Index(lower, "</powershell>") {
			t.Error(text)
		}
	})
}
