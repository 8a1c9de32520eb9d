from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0004_drop_checkpoint'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='targets_file',
            field=models.CharField(blank=True, default='', max_length=1024),
        ),
    ]
