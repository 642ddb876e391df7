package commands

import "testing"

func TestNormalize(t *testing.T) {
	t.Parallel()
	names := map[string]string{"ip-10-0-1-2.eu-west-1.compute.internal": "NODE", "p-x7": "POOL", "p-x7-abcde": "CLAIM"}
	for name, tc := range map[string]struct{ text, want string }{
		"names, the longest first":         {"p-x7-abcde of p-x7 on ip-10-0-1-2.eu-west-1.compute.internal", "CLAIM of POOL on NODE"},
		"times":                            {`at 2026-11-01T12:00:00Z, 2026-11-01T12:00:00.123456789+01:00 and 2026-11-01 12:00:00`, "at TIME, TIME and TIME"},
		"a time of day":                    {"12:00:01 launched", "TIME launched"},
		"ages":                             {"5s 1.5s 3m 59m 3m12s 2h 2h5m 24h 3d 3d4h old", "AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE old"},
		"quantities are no ages":           {"requests 500m CPU, 60m, 1536Mi and 2Gi; m5.large; 3 pods", "requests 500m CPU, 60m, 1536Mi and 2Gi; m5.large; 3 pods"},
		"prices stay":                      {"$0.0960 an hour ($70 a month)", "$0.0960 an hour ($70 a month)"},
		"identifiers":                      {"i-0b00757249 is 4c1ea3f0-7a11-4a5e-9d35-000000000001 of ami-0123456789abcdef0", "i-ID is UID of ami-ID"},
		"addresses":                        {"http://127.0.0.1:34567/console and 192.168.255.10:443, 10.0.0.1", "ADDRESS/console and IP, IP"},
		"versions are no addresses":        {"v1.37.1", "v1.37.1"},
		"columns":                          {"  NAME        PODS\n  p-x7-abcde     1\n\n    \"a\": 1  ", "  NAME  PODS\n  CLAIM  1\n\n    \"a\": 1"},
		"a column without contents":        {"  NAME        CODE\n              Second", "  NAME  CODE\n    Second"},
		"JSON is deep":                     {"          \"a\": 1\n          }", "          \"a\": 1\n          }"},
		"columns of an odd width":          {"a   b     c", "a  b  c"},
		"a column that is empty has width": {"a       c", "a  c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Normalize(tc.text, names)
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if again := Normalize(got, names); again != got {
				t.Errorf("a second time changes it to %q", again)
			}
		})
	}
}
