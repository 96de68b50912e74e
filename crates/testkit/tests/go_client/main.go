// The generated clients of Kubernetes, speaking protobuf in both directions: CustomResourceDefinitions, ConfigMaps,
// Secrets, Leases, and Events of both groups. Built by scripts/go-client.sh, run by tests/go_client.rs.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

const protobuf = "application/vnd.kubernetes.protobuf"

var ctx = context.Background()

func must(err error, what string) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func check(truth bool, what string, found ...any) {
	if !truth {
		fmt.Printf("not so: %s %v\n", what, found)
		os.Exit(1)
	}
}

// What every answer was written in.
type listener struct {
	inner http.RoundTripper
	lock  sync.Mutex
	other []string
}

func (l *listener) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.inner.RoundTrip(request)
	if err == nil {
		if found := response.Header.Get("Content-Type"); !strings.HasPrefix(found, protobuf) {
			l.lock.Lock()
			l.other = append(l.other, fmt.Sprintf("%s %s: %s", request.Method, request.URL.Path, found))
			l.lock.Unlock()
		}
	}
	return response, err
}

func main() {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	must(err, "the kubeconfig")
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf
	heard := &listener{}
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		heard.inner = inner
		return heard
	})
	client, err := kubernetes.NewForConfig(config)
	must(err, "a client")

	definition(config)
	configMaps(client)
	secrets(client)
	leases(client)
	recorders(client)
	check(len(heard.other) == 0, "every answer is protobuf", strings.Join(heard.other, "; "))
	fmt.Println("all good")
}

func definition(config *rest.Config) {
	client, err := definitions.NewForConfig(config)
	must(err, "a client of definitions")
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	most := 10.0
	wanted := &apiextensions.CustomResourceDefinition{
		ObjectMeta: meta.ObjectMeta{Name: "things.go.example.com"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "go.example.com",
			Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensions.CustomResourceSubresources{
					Status: &apiextensions.CustomResourceSubresourceStatus{}},
				Schema: &apiextensions.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
						Type: "object",
						Properties: map[string]apiextensions.JSONSchemaProps{
							"spec": {
								Type: "object",
								XValidations: apiextensions.ValidationRules{{
									Rule: "self.size < 10.0", Message: "small things only"}},
								Properties: map[string]apiextensions.JSONSchemaProps{
									"size": {Type: "number", Maximum: &most,
										Default: &apiextensions.JSON{Raw: []byte("1.5")}},
									"names": {Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{
										Schema: &apiextensions.JSONSchemaProps{Type: "string"}}},
									"words": {Type: "object",
										AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{
											Schema: &apiextensions.JSONSchemaProps{Type: "string"}}},
								},
							},
						},
					},
				},
			}},
		},
	}
	_, err = crds.Create(ctx, wanted, meta.CreateOptions{})
	must(err, "the definition")
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			found, err := crds.Get(ctx, wanted.Name, meta.GetOptions{})
			if err != nil {
				return false, err
			}
			for _, condition := range found.Status.Conditions {
				if condition.Type == apiextensions.Established && condition.Status == apiextensions.ConditionTrue {
					return true, nil
				}
			}
			return false, nil
		})
	must(err, "the definition is established")
	found, err := crds.Get(ctx, wanted.Name, meta.GetOptions{})
	must(err, "the definition again")
	spec := found.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	check(spec.XValidations[0].Rule == "self.size < 10.0", "the rule is there", spec)
	check(*spec.Properties["size"].Maximum == most, "the maximum is there", spec)
	check(string(spec.Properties["size"].Default.Raw) == "1.5", "the default is there", spec)
	check(spec.Properties["names"].Items.Schema.Type == "string", "the items are there", spec)
	check(found.Spec.Versions[0].Subresources.Status != nil, "the subresource is there", found)
	list, err := crds.List(ctx, meta.ListOptions{})
	must(err, "all definitions")
	check(len(list.Items) > 1, "ours are among them", len(list.Items))
	found.Labels = map[string]string{"changed": "yes"}
	_, err = crds.Update(ctx, found, meta.UpdateOptions{})
	must(err, "a changed definition")
	_, err = crds.Update(ctx, found, meta.UpdateOptions{})
	check(errors.IsConflict(err), "an old one is a conflict", err)
	must(crds.Delete(ctx, wanted.Name, meta.DeleteOptions{}), "its end")
}

func next(changes watch.Interface, wanted watch.EventType) watch.Event {
	select {
	case event, open := <-changes.ResultChan():
		check(open && event.Type == wanted, "the watch says "+string(wanted), event)
		return event
	case <-time.After(time.Minute):
		check(false, "the watch says something")
		panic("unreachable")
	}
}

func configMaps(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps("default")
	before, err := maps.List(ctx, meta.ListOptions{})
	must(err, "the ConfigMaps")
	changes, err := maps.Watch(ctx, meta.ListOptions{ResourceVersion: before.ResourceVersion})
	must(err, "a watch")
	made, err := maps.Create(ctx, &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Name: "go", Labels: map[string]string{"a": "b"}},
		Data:       map[string]string{"k": "v", "empty": ""}, BinaryData: map[string][]byte{"b": {0, 255}},
	}, meta.CreateOptions{})
	must(err, "a ConfigMap")
	check(made.UID != "" && !made.CreationTimestamp.IsZero(), "it is stamped", made)
	check(made.BinaryData["b"][1] == 255 && made.Data["empty"] == "", "it is whole", made)
	seen := next(changes, watch.Added).Object.(*core.ConfigMap)
	check(seen.Data["k"] == "v" && seen.ResourceVersion == made.ResourceVersion, "the watch shows it", seen)
	_, err = maps.Patch(ctx, "go", types.MergePatchType, []byte(`{"data":{"k":"w"}}`), meta.PatchOptions{})
	must(err, "a patch")
	check(next(changes, watch.Modified).Object.(*core.ConfigMap).Data["k"] == "w", "and its change")
	list, err := maps.List(ctx, meta.ListOptions{LabelSelector: "a=b"})
	must(err, "a list")
	check(len(list.Items) == 1 && list.Items[0].Name == "go" && list.ResourceVersion != "", "it is listed", list)
	must(maps.Delete(ctx, "go", meta.DeleteOptions{}), "its end")
	next(changes, watch.Deleted)
	changes.Stop()
	_, err = maps.Get(ctx, "go", meta.GetOptions{})
	check(errors.IsNotFound(err), "it is gone", err)
	_, err = maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "No"}}, meta.CreateOptions{})
	check(errors.IsInvalid(err), "a bad name is invalid", err)

	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	lister := factory.Core().V1().ConfigMaps().Lister()
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	_, err = maps.Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "cached"}}, meta.CreateOptions{})
	must(err, "another ConfigMap")
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			_, err := lister.ConfigMaps("default").Get("cached")
			return err == nil, nil
		})
	must(err, "the informer hears of it")
	close(stop)
	must(maps.Delete(ctx, "cached", meta.DeleteOptions{}), "its end")
}

func secrets(client kubernetes.Interface) {
	secrets := client.CoreV1().Secrets("default")
	_, err := secrets.Create(ctx, &core.Secret{
		ObjectMeta: meta.ObjectMeta{Name: "go"}, StringData: map[string]string{"a": "b"},
	}, meta.CreateOptions{})
	must(err, "a Secret")
	found, err := secrets.Get(ctx, "go", meta.GetOptions{})
	must(err, "the Secret")
	check(string(found.Data["a"]) == "b" && found.Type == core.SecretTypeOpaque, "it is whole", found)
	list, err := secrets.List(ctx, meta.ListOptions{Limit: 1})
	must(err, "the Secrets")
	check(len(list.Items) == 1, "a page of them", list)
	namespaces, err := client.CoreV1().Namespaces().List(ctx, meta.ListOptions{})
	must(err, "the Namespaces")
	check(namespaces.Items[0].Status.Phase == core.NamespaceActive, "they are active", namespaces)
}

func leases(client kubernetes.Interface) {
	leases := client.CoordinationV1().Leases("default")
	holder, seconds := "go", int32(15)
	now := meta.NewMicroTime(time.Now().Truncate(time.Microsecond))
	made, err := leases.Create(ctx, &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Name: "go"},
		Spec: coordination.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, meta.CreateOptions{})
	must(err, "a Lease")
	check(*made.Spec.HolderIdentity == "go" && made.Spec.RenewTime.Equal(&now), "it is whole", made)
	holder = ""
	made.Spec.HolderIdentity = &holder
	made, err = leases.Update(ctx, made, meta.UpdateOptions{})
	must(err, "the Lease given back")
	check(made.Spec.HolderIdentity != nil && *made.Spec.HolderIdentity == "", "nobody holds it", made)
}

// What both recorders tell is found in both groups.
func recorders(client kubernetes.Interface) {
	about, err := client.CoreV1().Secrets("default").Get(ctx, "go", meta.GetOptions{})
	must(err, "what the events are about")

	older := record.NewBroadcaster()
	older.StartRecordingToSink(&sink{client})
	older.NewRecorder(scheme.Scheme, core.EventSource{Component: "older"}).
		Event(about, core.EventTypeNormal, "Older", "said in the older form")

	newer := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	stop := make(chan struct{})
	newer.StartRecordingToSink(stop)
	newer.NewRecorder(scheme.Scheme, "example.com/newer").
		Eventf(about, nil, core.EventTypeWarning, "Newer", "Tell", "said in the %s form", "newer")

	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			list, err := client.CoreV1().Events("default").List(ctx, meta.ListOptions{})
			if err != nil {
				return false, err
			}
			said := map[string]string{}
			for _, event := range list.Items {
				said[event.Reason] = event.Message
			}
			return said["Older"] == "said in the older form" && said["Newer"] == "said in the newer form", nil
		})
	must(err, "both are core events")
	list, err := client.EventsV1().Events("default").List(ctx, meta.ListOptions{})
	must(err, "the events of the newer group")
	said := map[string]string{}
	for _, event := range list.Items {
		said[event.Reason] = event.Note + " by " + event.ReportingController + event.DeprecatedSource.Component
	}
	check(said["Newer"] == "said in the newer form by example.com/newer", "the newer one", said)
	check(strings.HasPrefix(said["Older"], "said in the older form by "), "the older one", said)
	close(stop)
	older.Shutdown()
}

// The sink of the client library takes an interface of its own for the same three calls.
type sink struct{ client kubernetes.Interface }

func (s *sink) Create(event *core.Event) (*core.Event, error) {
	return s.client.CoreV1().Events(event.Namespace).Create(ctx, event, meta.CreateOptions{})
}

func (s *sink) Update(event *core.Event) (*core.Event, error) {
	return s.client.CoreV1().Events(event.Namespace).Update(ctx, event, meta.UpdateOptions{})
}

func (s *sink) Patch(event *core.Event, data []byte) (*core.Event, error) {
	return s.client.CoreV1().Events(event.Namespace).
		Patch(ctx, event.Name, types.StrategicMergePatchType, data, meta.PatchOptions{})
}
