// Command generate writes the data file of package catalogue: it reads the pinned module of
// ec2instances.info data and keeps what EC2 said about Linux in us-east-1, changing only units.
// It is a module of its own, so that 130 MB of data never become a dependency of the sandbox.
//
// Usage, in this directory: go run . > ../types.json.gz
//
// With -table it writes the table of package internal/scenario/families from the same data instead.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	dataModule = "github.com/LeanerCloud/ec2-instances-info" // the name it has in its go.mod
	dataSource = "github.com/cristim/ec2-instances-info"     // the name it is published and cited under
	licence    = "data: ec2instances.info, MIT"
	region     = "us-east-1"
	zonePrefix = "use1-az"
)

func main() {
	table := flag.Bool("table", false, "write the table of internal/scenario/families")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *table); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, table bool) error {
	dir, version, err := locateModule(ctx)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(dir, "data", "instances.json"))
	if err != nil {
		return err
	}
	types, err := projectTypes(data)
	if err != nil {
		return err
	}
	source := fmt.Sprintf("%s %s (%s)", dataSource, version, licence)
	if table {
		return writeTable(out, source, types)
	}
	return write(out, document{Source: source, Region: region, Types: types})
}

// locateModule looks up the directory of the pinned module with the go command.
func locateModule(ctx context.Context) (dir, version string, err error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}\n{{.Version}}", dataModule)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return "", "", fmt.Errorf("locate %s: %w", dataModule, err)
	}
	dir, version, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	if dir == "" {
		return "", "", fmt.Errorf("locate %s: not downloaded; run go mod download", dataModule)
	}
	return dir, version, nil
}

// projectTypes keeps the types that have a Linux price, network limits and zones in the region.
func projectTypes(data []byte) ([]record, error) {
	var all []instance
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read instances: %w", err)
	}
	var types []record
	for i := range all {
		from := &all[i]
		linux := from.Pricing[region].Linux
		if linux.OnDemand == "" || from.VPC.MaxENIs == 0 || len(from.Zones[region]) == 0 {
			continue
		}
		to, err := convertInstance(from, linux)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from.Name, err)
		}
		types = append(types, to)
	}
	slices.SortFunc(types, func(a, b record) int { return cmp.Compare(a.Name, b.Name) })
	return types, nil
}

func convertInstance(from *instance, linux prices) (record, error) {
	to := record{
		Name:       from.Name,
		VCPU:       from.VCPU,
		MemoryMiB:  int(from.MemoryGiB * 1024),
		Arch:       slices.DeleteFunc(slices.Clone(from.Arch), func(arch string) bool { return arch == "i386" }),
		Processor:  from.Processor,
		Current:    from.Generation == "current",
		MaxENIs:    from.VPC.MaxENIs,
		IPv4PerENI: from.VPC.IPsPerENI,
		EBSMbps:    from.EBSMbps,
		EBSNVMe:    from.EBSNVMe,
		GPUs:       from.GPUs,
		GPUModel:   from.GPUModel,
		GPUMiB:     from.GPUMemoryGiB * 1024,
		Cluster:    from.Cluster,

		NetworkMbps: networkMbps(from.Network),
	}
	if from.Storage != nil && from.Storage.NVMe {
		to.Disks, to.DiskGB = from.Storage.Devices, from.Storage.SizeGB
	}
	var err error
	if text := strings.TrimSuffix(strings.TrimPrefix(from.Clock, "Up to "), " GHz"); text != "" {
		if to.ClockGHz, err = strconv.ParseFloat(text, 64); err != nil {
			return record{}, fmt.Errorf("clock speed: %w", err)
		}
	}
	if to.OnDemand, err = strconv.ParseFloat(linux.OnDemand, 64); err != nil {
		return record{}, fmt.Errorf("on-demand price: %w", err)
	}
	for _, text := range linux.Spot {
		price, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return record{}, fmt.Errorf("spot price: %w", err)
		}
		to.Spot = append(to.Spot, price)
	}
	for _, zone := range from.Zones[region] {
		to.Zones += strings.TrimPrefix(zone, zonePrefix)
	}
	return to, nil
}

// write puts one type on a line, so that two generations can be compared with zdiff.
func write(out io.Writer, doc document) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "{\"source\":%q,\"region\":%q,\"types\":[", doc.Source, doc.Region)
	for i := range doc.Types {
		line, err := json.Marshal(&doc.Types[i])
		if err != nil {
			return err
		}
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteByte('\n')
		text.Write(line)
	}
	text.WriteString("\n]}\n")
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := text.WriteTo(packed); err != nil {
		return err
	}
	return packed.Close()
}
