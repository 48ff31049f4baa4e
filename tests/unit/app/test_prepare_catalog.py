"""What `muniment up` makes of the catalog before anything is served."""

from pathlib import Path

import pytest

from app.layout import Layout
from app.settings import Settings
from app.up import OtherRepresentation, prepare_catalog
from core.ids import PolicyRevision
from corpus.catalog.database import Database


def test_a_data_directory_of_another_representation_is_refused_not_served_without_its_index(tmp_path: Path) -> None:
    """Its searches would be told that the index is away and heals, for ever."""
    settings, layout, revision = Settings(data_dir=tmp_path), Layout(tmp_path), PolicyRevision("p-1")
    prepare_catalog(settings, layout, revision)
    prepare_catalog(settings, layout, revision)
    database = Database.open(layout.catalog)
    database.write_now(lambda tx: tx.exec_driver_sql("UPDATE tenants SET representation_id = 'older'"))
    database.close()

    with pytest.raises(OtherRepresentation, match=r"older.*new data directory"):
        prepare_catalog(settings, layout, revision)
