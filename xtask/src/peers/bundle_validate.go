// Validates a bundle as `operator-sdk bundle validate --select-optional suite=operatorframework` does. Warnings of the
// validators that always run are errors here.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	validators "github.com/operator-framework/api/pkg/validation/interfaces"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	"github.com/sirupsen/logrus"
)

var optional = validators.Validators{
	validation.OperatorHubV2Validator,
	validation.StandardCapabilitiesValidator,
	validation.StandardCategoriesValidator,
	validation.ObjectValidator,
	validation.GoodPracticesValidator,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Println("usage: bundle-validate DIRECTORY")
		os.Exit(1)
	}
	directory := os.Args[1]
	failed := false
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			failed = true
		}
	}
	format := bundle.NewImageValidator(nil, logrus.NewEntry(logrus.New()))
	check(format.ValidateBundleFormat(directory))
	check(format.ValidateBundleContent(filepath.Join(directory, "manifests")))
	contents, err := manifests.GetBundleFromDir(directory)
	check(err)
	if err != nil {
		os.Exit(1)
	}
	objects := contents.ObjectsToValidate()
	for _, object := range contents.Objects {
		objects = append(objects, object)
	}
	for _, result := range validation.DefaultBundleValidators.Validate(objects...) {
		for _, found := range append(result.Errors, result.Warnings...) {
			check(found)
		}
	}
	for _, result := range optional.Validate(objects...) {
		for _, found := range result.Errors {
			check(found)
		}
		for _, found := range result.Warnings {
			fmt.Println(found)
		}
	}
	if failed {
		os.Exit(1)
	}
}
