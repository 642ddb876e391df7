package catalogue

import "strings"

// splitDevices parts what the source calls GPUs by their kind. It calls Trainium "Inferentia" and does not
// know Gaudi, its names are longer than EC2's, and some memory sizes are those of the advertisement.
func splitDevices(r *record, family string) ([]GPU, []Accelerator, []Neuron) {
	switch family {
	case "dl1":
		return []GPU{{Name: "Gaudi HL-205", Manufacturer: "Habana", Count: 8, MemoryMiB: 32768}}, nil, nil
	case "inf1":
		return nil, inferentiaDevices("Inferentia", r.GPUs), []Neuron{{Name: "Inferentia", Count: r.GPUs, Cores: 4}}
	case "inf2":
		return nil, inferentiaDevices("Inferentia2", r.GPUs), []Neuron{{Name: "Inferentia2", Count: r.GPUs, Cores: 2}}
	case "trn1", "trn1n":
		return nil, nil, []Neuron{{Name: "Trainium", Count: r.GPUs, Cores: 2}}
	}
	if r.GPUs == 0 {
		return nil, nil, nil
	}
	maker, model, _ := strings.Cut(r.GPUModel, " ")
	model = strings.TrimSuffix(strings.TrimPrefix(model, "Tesla "), " Tensor Core")
	gpu := GPU{Name: model, Manufacturer: maker, Count: r.GPUs, MemoryMiB: r.GPUMiB / r.GPUs}
	switch model {
	case "T4G":
		gpu.Name = "T4g"
	case "A10G", "L4": // advertised as 24 GB
		gpu.MemoryMiB = 22888
	case "L40S": // advertised as 48 GB
		gpu.MemoryMiB = 45776
	}
	return []GPU{gpu}, nil, nil
}

func inferentiaDevices(name string, count int) []Accelerator {
	return []Accelerator{{Name: name, Manufacturer: "AWS", Count: count}}
}
