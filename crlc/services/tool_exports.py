"""Writers of the export formats that other tools load: Hugging Face, FiftyOne, COCO, Label Studio and ONNX."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from crlc.data.image_lookup import get_original_folder
from crlc.export.annotation_files import (
    AnnotationFileReport,
    build_labelling_config,
    get_document_root,
    write_coco_file,
    write_label_studio_file,
)
from crlc.export.dataset_folders import DatasetFolderReport, write_fiftyone_folder, write_image_folder
from crlc.export.destinations import explain_write_errors, require_new_file, write_new_text
from crlc.export.onnx_script import ONNX_SCRIPT, get_script_path
from crlc.export.vector_export import write_vectors
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.progress import ProgressCallback
from crlc.runs.run_title import read_run_title
from crlc.services.export_types import ExportOptions, ExportReport
from crlc.workspace.runs import RunStore

if TYPE_CHECKING:
    from crlc.services.exporters import Exporter


def write_image_folder_export(
    exporter: Exporter, folder: Path, options: ExportOptions, report: ProgressCallback
) -> ExportReport:
    """Write the folder of Hugging Face datasets."""
    written = write_image_folder(exporter.read_rows(), folder, options.links, report, columns=options.columns)
    return _report_folder(written, folder, options)


def write_fiftyone_export(
    exporter: Exporter, folder: Path, options: ExportOptions, report: ProgressCallback
) -> ExportReport:
    """Write the folder of FiftyOne."""
    written = write_fiftyone_folder(exporter.read_rows(), folder, options.links, report, columns=options.columns)
    return _report_folder(written, folder, options)


def write_coco_export(exporter: Exporter, file: Path, options: ExportOptions, report: ProgressCallback) -> ExportReport:
    """Write the COCO file."""
    return _report_file(write_coco_file(exporter.read_rows(), file, report, columns=options.columns), file)


def write_label_studio_export(
    exporter: Exporter, file: Path, options: ExportOptions, report: ProgressCallback
) -> ExportReport:
    """Write the tasks of Label Studio."""
    return _report_file(write_label_studio_file(exporter.read_rows(), file, report, columns=options.columns), file)


def write_vectors_export(
    exporter: Exporter, file: Path, options: ExportOptions, report: ProgressCallback
) -> ExportReport:
    """Write the feature vectors of all images."""
    written = write_vectors(exporter.read_rows(), exporter.read_vectors(options.features), file, report)
    return ExportReport(
        file,
        f"Wrote {format_count(written.images, 'vector')} of {written.dimensions:,} numbers to "
        f"{to_printable(str(file))}.",
        {"excluded": written.excluded, "not assigned": written.not_assigned},
        asdict(written),
    )


def explain_vectors(_: Exporter, path: str) -> str:
    """Return the code that reads the file."""
    return f"import pandas\n\ntable = pandas.read_parquet({path!r})  # columns path and vector\n"


def write_onnx_export(exporter: Exporter, file: Path, _: ExportOptions, __: ProgressCallback) -> ExportReport:
    """Write the network as an ONNX file, and beside it the script that assigns images with it."""
    # Imported here: importing torch takes seconds, which other formats and the start of the app do not need.
    from crlc.services.models import load_named_model
    from crlc.training.device import choose_device
    from crlc.training.onnx_file import write_onnx_file

    run, script = exporter.get_run(), get_script_path(file)
    require_new_file(script)
    model = load_named_model(RunStore(exporter.workspace), run, choose_device("cpu"))
    with explain_write_errors(file):
        write_onnx_file(model, file)
    try:
        write_new_text(script, lambda stream: stream.write(ONNX_SCRIPT))
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    shown = to_printable(str(script))
    return ExportReport(
        file,
        f"Wrote backbone and heads of {read_run_title(run)} to {to_printable(str(file))}, and a script that "
        f"assigns images with it to {shown}.",
        details={
            "clusters": model.settings.model.clusters,
            "image_size": model.settings.data.image_size,
            "script": shown,
        },
    )


def explain_image_folder(_: Exporter, path: str) -> str:
    """Return the code that loads the folder with Hugging Face datasets."""
    return (
        "from datasets import load_dataset\n\n"
        f"dataset = load_dataset('imagefolder', data_dir={path!r}, split='train')\n"
    )


def explain_fiftyone(_: Exporter, path: str) -> str:
    """Return the code that loads the folder with FiftyOne."""
    return (
        "import fiftyone as fo\n\n"
        f"dataset = fo.Dataset.from_dir({path!r}, dataset_type=fo.types.FiftyOneImageClassificationDataset)\n"
    )


def explain_coco(exporter: Exporter, path: str) -> str:
    """Return the code that loads the file with torchvision."""
    folder = get_original_folder(exporter.dataset) or "FOLDER OF THE IMAGES"
    return (
        "from torchvision.datasets import CocoDetection  # needs pycocotools\n\n"
        f"images = CocoDetection({to_printable(folder)!r}, {path!r})\n"
    )


def explain_label_studio(exporter: Exporter, path: str) -> str:
    """Return the setup and the labelling interface of the Label Studio project.

    Raises:
        UsageError: the images are not single files.
    """
    rows = exporter.read_rows()
    root = to_printable(get_document_root(rows))
    return (
        "# 1. Start Label Studio with:\n"
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true\n"
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root}\n"
        f"# 2. In the project's cloud storage settings, add the folder of the images below {root} as local files.\n"
        f"# 3. Use this labelling interface, then import {path}:\n"
        f"{build_labelling_config(rows)}"
    )


def explain_onnx(_: Exporter, path: str) -> str:
    """Return the commands that assign images with the file and its script."""
    script = shlex.quote(str(get_script_path(Path(path))))
    return f"pip install onnxruntime pillow\npython {script} IMAGES  # prints path, cluster and probability\n"


def _report_folder(written: DatasetFolderReport, folder: Path, options: ExportOptions) -> ExportReport:
    what = format_count(written.images, *(("copy", "copies") if options.links == "copy" else ("link",)))
    return ExportReport(
        folder,
        f"Created {what} in {to_printable(str(folder))}.",
        {"excluded": written.excluded, "not assigned": written.not_assigned, "original not readable": written.missing},
        asdict(written),
    )


def _report_file(written: AnnotationFileReport, file: Path) -> ExportReport:
    categories = format_count(written.categories, "category", "categories")
    return ExportReport(
        file,
        f"Wrote {format_count(written.images, 'image')} in {categories} to {to_printable(str(file))}.",
        {
            "excluded": written.excluded,
            "not assigned": written.not_assigned,
            "outside the folder of the images": written.outside,
        },
        asdict(written),
    )
