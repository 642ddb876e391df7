package fakenode

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever the controller writes into user data, the nodes understand.
func TestTrust_D03_LocalDisksAreTheStorageOfPods(t *testing.T) {
	t.Parallel()
	const disks = 1900 * 1_000_000_000
	for family, want := range map[string]int64{"al2": disks, "al2023": disks, "bottlerocket": disks, "windows2022": 40 * gibi} {
		for _, form := range []string{"raid0", "raid0-new-image"} {
			t.Run(family+"/"+form, func(t *testing.T) {
				t.Parallel()
				data, err := os.ReadFile(filepath.Join("..", "..", "internal", "aws", "userdata", "testdata", family, form+".txt"))
				if err != nil {
					t.Fatal(err)
				}
				config, err := ParseUserData(data)
				if err != nil {
					t.Fatal(err)
				}
				i := Instance{Capacity: m5LargeCapacity(), LocalBytes: disks, Disks: []Disk{{Device: "/dev/sda1", Bytes: 40 * gibi, Root: true}}}
				list := Capacity(i.withStorage(config), config, 0)
				storage := list.StorageEphemeral()
				if storage.Value() != want {
					t.Errorf("pods have %s, want %d", storage, want)
				}
			})
		}
	}
}

func TestTrust_D03_VolumesOfALaunchAreTheStorageOfPods(t *testing.T) {
	t.Parallel()
	two := []Disk{{Device: "/dev/xvda", Bytes: 4 * gibi, Root: true}, {Device: "/dev/xvdb", Bytes: 50 * gibi}}
	for name, tc := range map[string]struct {
		instance Instance
		config   Config
		want     int64
	}{
		"the root volume":                       {Instance{Disks: two}, Config{Family: AL2023}, 4 * gibi},
		"the data volume of Bottlerocket":       {Instance{Disks: two}, Config{Family: Bottlerocket}, 50 * gibi},
		"Bottlerocket with one volume":          {Instance{Disks: two[:1]}, Config{Family: Bottlerocket}, 4 * gibi},
		"what the type has, without volumes":    {Instance{}, Config{Family: AL2023}, 20 * gibi},
		"no local disks to join":                {Instance{Disks: two}, Config{Family: AL2023, RAID0: true}, 4 * gibi},
		"local disks that user data leaves out": {Instance{Disks: two, LocalBytes: 1 << 40}, Config{Family: AL2023}, 4 * gibi},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.instance.Capacity = m5LargeCapacity()
			machine := tc.instance.withStorage(tc.config)
			if got := machine.StorageEphemeral().Value(); got != tc.want {
				t.Errorf("pods have %d bytes, want %d", got, tc.want)
			}
		})
	}
}

// A machine runs on when its type is withdrawn: its disks are known, what else it has is not.
func TestStorageOfAMachineOfAnUnknownType(t *testing.T) {
	t.Parallel()
	i := Instance{Disks: []Disk{{Device: "/dev/xvda", Bytes: 4 * gibi, Root: true}}}
	machine := i.withStorage(Config{Family: AL2023})
	if got := machine.StorageEphemeral().Value(); got != 4*gibi {
		t.Errorf("pods have %d bytes, want %d", got, 4*gibi)
	}
}
