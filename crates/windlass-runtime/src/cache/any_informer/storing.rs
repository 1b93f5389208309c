//! Conversion of received objects to stored ones.

use std::{panic::AssertUnwindSafe, sync::Arc};

use super::AnyInformer;
use crate::{
    any_object::{AnyObject, unshared},
    cache::cell::Cell,
    key::ObjectKey,
    watch::ObjectStorer,
};

impl AnyInformer {
    /// Prepares an object of a list for storage; `before` is the number of objects before it in the list.
    pub(in crate::cache) fn keep(
        &self,
        mut object: Arc<dyn AnyObject>,
        before: usize,
        text: Option<&[u8]>,
    ) -> Arc<Cell<dyn AnyObject>> {
        // A transform makes another object than that of the text.
        let transforms = self.settings.transform.is_some();
        if let Some(text) = text
            && transforms
            && self.packer.packs_texts(before)
        {
            self.packer.check(&*object, text);
        }
        self.prepare(&mut object);
        match text.filter(|_| !transforms) {
            Some(text) if self.packer.packs_texts(before) => Cell::of_text(object, text, &self.packer),
            Some(text) if self.settings.packing.is_some() => Cell::with_text(object, text, &self.packer),
            _ if self.packer.packs(before) => Cell::packed(object, &self.packer),
            _ => Cell::new(object),
        }
    }

    /// Applies the transform of the settings.
    pub(in crate::cache) fn prepare(&self, object: &mut Arc<dyn AnyObject>) {
        let managed = object.metadata().managed_fields.is_some() && !self.settings.keep_managed_fields;
        if !managed && self.settings.transform.is_none() {
            return;
        }
        // A newly parsed object is not shared, so it is not copied.
        let object = unshared(object);
        if managed {
            object.metadata_mut().managed_fields = None;
        }
        if let Some(transform) = &self.settings.transform {
            let contained = std::panic::catch_unwind(AssertUnwindSafe(|| transform(object)));
            if contained.is_err() {
                tracing::error!(kind = %self.target.resource.kind, "transform panicked; keeping its partial result");
            }
        }
    }
}

/// Objects of a list are packed while it arrives, so that it is never completely in memory in unpacked form.
impl ObjectStorer for Arc<AnyInformer> {
    type Stored = Arc<Cell<dyn AnyObject>>;

    fn keep(&self, object: Arc<dyn AnyObject>, before: usize, text: Option<&[u8]>) -> Arc<Cell<dyn AnyObject>> {
        AnyInformer::keep(self, object, before, text)
    }

    fn rejected(&self, problem: &str) {
        *self.rejection.lock() = Some(problem.to_owned());
        self.progress.send_if_modified(|progress| {
            let is_news = !progress.synced && !progress.absent && !progress.rejected;
            progress.rejected |= is_news;
            is_news
        });
    }

    fn received(&self, text: &[u8]) {
        // Also while there are few objects: these may be packed when there are more.
        self.packer.received(text);
    }

    fn key(kept: &Arc<Cell<dyn AnyObject>>) -> ObjectKey {
        kept.key()
    }
}
